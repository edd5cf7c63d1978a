"""What a person says in English of their life that lasts: patterns for the start of a clause, with their priorities."""

from __future__ import annotations

import re

from memory_tencentdb_worker.offline import facts
from memory_tencentdb_worker.offline.words_en import ADVERBS, COMMANDS, HEALTH, OCCUPATION, POSSESSIONS

ADV = rf"(?:(?:{ADVERBS})\s+)*"
SUBJECT = rf"^I\s+{ADV}"
_AM = rf"^(?:I\s+am|I['’]m)\s+{ADV}"

PERSONA = tuple(
    (re.compile(pattern, re.IGNORECASE), priority)
    for pattern, priority in (
        (rf"{_AM}(?:not\s+)?(?:{HEALTH})\b", facts.HEALTH),
        (
            rf"{SUBJECT}(?:have|suffer from|was diagnosed with|got diagnosed with)\s+(?:an?\s+|"
            rf"severe\s+|mild\s+|type \d\s+|chronic\s+)*(?:\w+\s+){{0,2}}?(?:{HEALTH})\b",
            facts.HEALTH,
        ),
        (
            rf"^I(?:['’]ve|\s+have)\s+had\s+(?:an?\s+|severe\s+|mild\s+|type \d\s+|chronic\s+)*(?:{HEALTH})\b",
            facts.HEALTH,
        ),
        (rf"{SUBJECT}(?:do not|don['’]t|can['’]?t|cannot|never)\s+(?:eat|drink|smoke|tolerate|digest)\b", facts.HEALTH),
        (rf"{SUBJECT}take\s+\d[\w.]*\s*(?:mg|ml|pills?|units?)\b", facts.HEALTH),
        (
            rf"{SUBJECT}(?:(?:live|reside) (?:in|on|at|near|with|alone|by|outside|between|abroad|next)|grew up|"
            rf"was born|come from)\b",
            facts.CORE,
        ),
        (rf"{_AM}(?:based|living|born|originally|from(?! the\b))\b", facts.CORE),
        (
            r"^(?:I|we)(?:['’]ve|\s+have)\s+been\s+(?:living|working|teaching|studying|running|based|married|"
            r"together|vegan|vegetarian|retired|learning|playing|collecting|practi[cs]ing)\b"
            r"(?!\s+on (?:this|that|it|the)\b)",
            facts.CORE,
        ),
        (rf"{SUBJECT}no longer\s+(?:live|work|eat|drink|use|own|have|play|smoke)\b", facts.CORE),
        (
            rf"{SUBJECT}(?:work|worked|freelance)\b(?:\s+\w+ly)?\s+(?:at|for|as|in|from|part|full|remotely|nights|"
            rf"weekends|(?:[\w-]+\s+)?(?:shifts|hours|days))\b",
            facts.CORE,
        ),
        (
            rf"{SUBJECT}spend\s+(?:most|all|half|the|my|every)\s+(?:of\s+)?(?:\w+\s+)?"
            r"(?:weekends?|winters?|summers?|springs?|autumns?|holidays|evenings|mornings|year|months?|time)\s+(?:at|in|on|with)\b",
            facts.ORDINARY,
        ),
        (rf"{SUBJECT}do\s+[a-z-]+\s+(?:for|at)\s+(?:an?|the|two|several)\s+\w", facts.CORE),
        (
            r"^I(?:['’]ve|\s+have)\s+(?:worked|lived|taught|studied|played|volunteered)\s+(?!on\b|with\b|this\b|that\b)\w",
            facts.CORE,
        ),
        (rf"{_AM}(?:training|studying|learning|qualifying)\s+(?:to be|to become|as|for)\b", facts.CORE),
        (
            rf"{SUBJECT}find\s+(?!that\b|it\b|this\b|the\b|out\b|my|your)[\w-]+(?:\s+[\w-]+)?\s+"
            r"(?:relaxing|boring|exhausting|stressful|fascinating|soothing|unbearable|overrated|disgusting|beautiful)\b",
            facts.ORDINARY,
        ),
        (
            rf"{SUBJECT}wear\s+(?:an?\s+)?(?:hearing aids?|glasses|contact lenses|contacts|braces|dentures|"
            r"insulin pump|prosthe\w+)\b",
            facts.HEALTH,
        ),
        (
            r"^(?:my|our)\s+(?:team|company|startup|start-up|studio|lab|shop|store|band|department|employer|family)\s+"
            r"(?!wants|needs|says|asks|thinks|keeps|fails|insists|expects|likes|hates|is\b|was\b|has\b)[a-z]+s\s+\w",
            facts.CORE,
        ),
        (
            rf"{_AM}(?:doing|finishing|completing|writing)\s+(?:an?|my)\s+(?:[\w-]+\s+){{0,2}}?(?:PhD|doctorate|master['’]?s|"
            rf"bachelor['’]?s|degree|apprenticeship|internship|residency|traineeship|postdoc|thesis|dissertation)\b",
            facts.CORE,
        ),
        (rf"{_AM}(?:working (?:at|for|as)|self-employed|retired|employed|unemployed|a freelance)\b", facts.CORE),
        (rf"{_AM}(?:an?|the)\s+(?:[\w-]+\s+){{0,4}}?(?:{OCCUPATION})\b", facts.CORE),
        (
            rf"{SUBJECT}(?:run|own|lead|manage|founded|co-founded|teach|study|studied|research)\s+(?!{COMMANDS}|into\b|to\b|the\b|"
            rf"out\b|a (?:test|script|command)\b|this\b|that\b|it\b|"
            rf"on\b)\w",
            facts.CORE,
        ),
        (rf"{_AM}(?:studying|majoring|enrolled|pursuing)\b", facts.CORE),
        (
            rf"{_AM}(?:married|engaged|divorced|single|widowed|\d{{1,3}} years? old|left-handed|"
            rf"right-handed|colou?r-?blind|bilingual|an only child)\b",
            facts.CORE,
        ),
        (
            rf"{_AM}(?:\d{{1,2}}|german|french|spanish|italian|portuguese|chinese|japanese|korean|"
            rf"indian|american|british|canadian|brazilian|dutch|polish|russian|turkish|swiss|austrian|"
            rf"swedish|norwegian|danish|finnish|greek|mexican|australian|irish|ukrainian)\s*(?:$|,|"
            rf"and\b)",
            facts.CORE,
        ),
        (
            rf"{SUBJECT}(?:speak|play|collect|practi[cs]e|volunteer|breed|grow|brew|paint|sing|ride|sell|repair|restore|tutor|"
            rf"drive)\s+(?!the (?!piano|guitar|violin|cello|drums|flute|harp|trumpet|saxophone|"
            rf"clarinet|bass|viola|ukulele|accordion|banjo|oboe)|with\b|this\b|that\b|"
            rf"it\b)\w",
            facts.ORDINARY,
        ),
        (
            rf"^(?:I|we)\s+{ADV}(?:have|own|keep|adopted)\s+(?:an?|one|two|three|four|five|six|seven|\d+|"
            rf"many|no|several)\s+(?:[\w-]+\s+){{0,3}}?(?:{POSSESSIONS})\b",
            facts.ORDINARY,
        ),
        (
            rf"{SUBJECT}(?:use|usually use|write in|code in|program in|type on)\s+(?!this\b|that\b|it\b|"
            rf"the\b|them\b|these\b|those\b|your?\b)\w",
            facts.ORDINARY,
        ),
        (
            r"^I\s+(?:usually|always|often|never|rarely|generally|normally|mostly|"
            r"sometimes)\s+(?!wanted|thought|knew|forget|get|got|been|had|heard|seen|said|wonder|mind|"
            r"understood)\w+\s+\w",
            facts.ORDINARY,
        ),
        (
            r"^I\s+only\s+(?:drink|eat|use|wear|read|buy|watch|listen to|fly|cook|sleep)\s+"
            r"(?!this\b|that\b|it\b|the\b)\w",
            facts.ORDINARY,
        ),
        (
            rf"{_AM}(?:not\s+)?(?:(?:an?|the)\s+(?:big(?:gest)?|huge|great|lifelong)?\s*)?"
            rf"(?:fan of|fond of|passionate about|into|"
            rf"afraid of|scared of|obsessed with|interested in|a night owl|a morning person|"
            rf"an early bird)\s+(?!this\b|that\b|it\b|your\b)\w",
            facts.ORDINARY,
        ),
    )
)
