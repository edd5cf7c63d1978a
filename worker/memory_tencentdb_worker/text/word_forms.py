"""The forms of a word that a search takes for the same: other spellings, and English forms that no stemmer brings
together (`go`, `went`, `gone`; each line is one word)."""

from __future__ import annotations

from memory_tencentdb_worker.text.script_forms import script_forms

_IRREGULAR = """
become became
begin began begun
bite bit bitten
blow blew blown
break broke broken
bring brought
build built
buy bought
catch caught
child children
choose chose chosen
come came
deal dealt
die died dying
draw drew drawn
dream dreamt
drink drank drunk
drive drove driven
eat ate eaten
fall fell fallen
feed fed
feel felt
fight fought
find found
fly flew flown
foot feet
forget forgot forgotten
forgive forgave forgiven
freeze froze frozen
get got gotten
give gave given
go went gone
grow grew grown
hang hung
hear heard
hide hid hidden
hold held
keep kept
know knew known
lead led
learn learnt
leave left
lend lent
life lives
lose lost
make made
man men
mean meant
meet met
mouse mice
pay paid
person people
ride rode ridden
ring rang rung
rise rose risen
run ran
see saw seen
sell sold
send sent
shake shook shaken
shine shone
shoot shot
show shown
sing sang sung
sit sat
sleep slept
speak spoke spoken
spend spent
stand stood
steal stole stolen
stick stuck
swim swam swum
take took taken
teach taught
tear tore torn
think thought
throw threw thrown
tooth teeth
understand understood
wake woke woken
wear wore worn
wife wives
win won
woman women
write wrote written
"""

_FORMS = {form: tuple(line.split()) for line in _IRREGULAR.split("\n") for form in line.split()}


def word_forms(term: str) -> tuple[str, ...]:
    """The term and its other forms, itself alone when it has none."""
    return _FORMS.get(term) or (term, *script_forms(term))
