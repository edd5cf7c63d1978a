"""What the English rules look for, as regular expressions; `rules_en` says in which order."""

from __future__ import annotations

import re

from memory_tencentdb_worker.offline.persona_en import ADV, SUBJECT
from memory_tencentdb_worker.offline.words_en import (
    ADVERBS,
    ATTRIBUTES,
    EVENT_NOUNS,
    LANGUAGES,
    RELATIONS,
)

TAIL_QUESTION = re.compile(
    r"(?i)(?:,|\s[-–—]|\bso\b|\band\b)\s*(?:so\s+|and\s+|now\s+|but\s+)?(?:please\s+)?(?:can|could|"
    r"would|will|do|does|did|is|are|what|which|how|where|"
    r"who|when|why|any|should|please|help|suggest|recommend|give me|tell me|show me|write|find)\b.*$"
)
REQUEST = re.compile(
    r"(?i)^(?:please|pls|can|could|would|will|help|tell|show|give|write|explain|describe|list|find|"
    r"suggest|recommend|make|create|"
    r"generate|fix|check|compare|convert|calculate|translate|summari[sz]e|rewrite|draft|imagine|"
    r"suppose|pretend|assume|consider|say|"
    r"think|look|let['’]?s|let me|what|why|how|when|where|who|which|is|are|do|does|did|should|try|add|"
    r"remove|change|update|run|use|"
    r"implement|refactor|test|review|read|search|open|play)\b"
)
UNREAL = re.compile(
    r"(?i)\b(?:if|unless|imagine|suppose|supposing|pretend|hypothetical\w*|what if|let['’]?s say|"
    r"as if|as though|wish|would have|"
    r"could have|might|maybe|perhaps|not sure|don['’]?t know|no idea|I guess|I think|I believe|"
    r"I assume|I doubt|I wonder|I feel like|"
    r"(?:just\s+)?kidding|joking|just a joke|lol|haha\w*|sarcas\w+|for example|e\.g\.|for instance|"
    r"would (?:like|love|prefer|hate)|"
    r"I['’]d|used to (?:think|believe)|dream(?:ed|t) (?:that|of|about)|role-?play|in (?:the|this|"
    r"my) (?:story|novel|game|book|movie|film|dream)|"
    r"my character)\b|(?:\s/s$)"
)
REPORT = re.compile(
    r"(?i)\b(?:says?|said|thinks?|thought|claims?|claimed|told (?:me|us|him|her|them)|believes?|"
    r"insists?|wrote|asks?|asked|heard)\b"
    r"(?:\s+\w+){0,3}?\s+(?:that\s+)?(?:I|my)\b"
)
# Said of a task at hand, not of a life.
TROUBLE = re.compile(
    r"(?i)\b(?:errors?|fail(?:s|ed|ing)?|crash(?:es|ed|ing)?|bugs?|traceback|exceptions?|compil\w+|stack trace|broken|"
    r"(?:doesn't|does not|won't|isn't|not) work(?:ing)?|(?:for|while) loops?|segfaults?|null|undefined|hangs?|hanging|"
    r"freez(?:es|ing)|wrong|stuck)\b|"
    r"\w(?:Error|Exception)\b"
)
# Points at the place or the file before the speaker, which no reader of the memory sees.
POINTING = re.compile(r"^I\b.*\b(?:here|(?:for|with|on) (?:this|that|it))\b")
HAVE_GOT = re.compile(r"^I(?:['’]ve| have) got\b")
SECRET = re.compile(
    r"(?i)\b(?:pass(?:word|code|phrase)s?|api[- ]?keys?|secret|access token|private key|PIN|CVV|"
    r"social security)\b|\bsk-\w{8,}"
)
INTERJECTION = re.compile(
    r"(?i)^(?:(?:hi|hello|hey|ok(?:ay)?|well|so|and|also|but|oh|ah|yes|yeah|yep|no|nope|sure|right|"
    r"thanks|thank you|great|cool|actually|"
    r"btw|by the way|fyi|for the record|just so you know|you know|as you know|note that|in fact|"
    r"to be clear|good morning|good evening|"
    r"good afternoon|(?:hi|hello|hey)(?: there| everyone| all)?|correction|update|sorry|personally|"
    r"honestly|nice to meet you|"
    r"a bit about me|about me|(?:I have |I've got |some )?(?:some |good |bad |big )*news)\b\s*[,.:!—–-]*\s*)+"
)
SPLIT = re.compile(r"\s*(?:,\s*|\s)and\s+(?=(?:I|I['’]m|I['’]ve|my)\b)|\s*;\s*")

# "I live in Lisbon and am allergic to nuts": the second verb shares the subject, which is said again for SPLIT. Behind
# a modal, a negation or an infinitive the verb may belong to that one instead.
SUBJECT_VERB = re.compile(
    rf"^(?:I|I['’]m|I['’]ve)\s+(?:(?:{ADVERBS})\s+)*"
    r"(?!(?:can|could|will|would|shall|should|must|may|might|want|plan|hope|wish|try|need|do|don['’]t|never)\b)"
)
INFINITIVE = re.compile(r"\bto\s+[a-z]")
SHARED_SUBJECT = re.compile(
    r"(?<=\w)(?:\s*,\s*(?:and\s+)?|\s+and\s+)(?="
    rf"(?:(?:{ADVERBS}|never|usually|often)\s+)*"
    r"(?:am|have|live|work|hate|like|love|prefer|enjoy|study|teach|speak|play|own|drive|collect|"
    r"don['’]t\s+\w+|do\s+not\s+\w+|never\s+\w+)\s+\w)"
)

COUPLE = re.compile(rf"(?i)^(?P<both>my\s+(?:\w+\s+)?(?:{RELATIONS})(?:\s+[A-Z]\w+)?)\s+and\s+I\s+")
APPOSITION = re.compile(r"^((?:I'm|I am|[Mm]y name is) [A-Z][\w'-]+(?: [A-Z][\w'-]+)?), (an? )")
TAIL = re.compile(r"(?i)(?:,?\s*(?:btw|by the way|though|thanks|thank you|you know|:-?\)|;-?\)))+$")
ANAPHORA = re.compile(
    r"(?i)^(?:that|this|it|its|them|these|those|him|her|you|your|yours|how|when|what|where|to know|"
    r"to see|the (?:idea|way|fact|answer|"
    r"result|look|sound|new|first|second|third|former|latter|other|last|previous|above|current|"
    r"approach|option|version|solution)|"
    r"(?:one|both|all|none|some|any) of)\b"
)
NAME = re.compile(
    r"(?i:^(?:my (?:full |first |real )?name(?:['’]s| is)|I(?: am|['’]m) called|"
    r"I go by)\s+)(?P<name>\w[^,.;!?()]{0,60}?)(?=$|[,;(]|\s+(?:and|but|from)\b)"
)
INTRODUCED = re.compile(
    r"^(?:I am|I['’]m|[Tt]his is) (?P<name>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)?)(?=$|[,;(]|\s+(?:and|from)\b)"
)
LIKING = re.compile(
    rf"(?i){SUBJECT}(?:love|like|adore|enjoy|prefer|hate|dislike|detest|loathe|can['’]?t stand|cannot stand|"
    rf"do not like|don['’]t like|don['’]t enjoy|"
    r"am not a fan of)\s+(?P<object>.+)"
)
BY_HEART = re.compile(
    rf"(?i)^(?:my|our)\s+(?:[\w-]+\s+){{0,2}}?(?P<noun>{ATTRIBUTES})(?:\s+[\w-]+){{0,3}}?(?:['’]s|\s+(?:is|are|"
    rf"was|lives?|uses?|runs?))\s+(?P<value>.+)"
)
RELATION = re.compile(
    rf"(?i)^(?:my|our)\s+(?:(?:older|younger|elder|little|big|twin|best|old|new|late|ex-?|eldest|"
    rf"youngest|only|closest|good|late)\s*)*(?:{RELATIONS})\b(?:['’]s\s+name)?,?\s+"
    r"(?!.*\b(?:asked me|wants me|told me|says|said|keeps?|crash\w*|broken)\b)[\w'’-]+"
)
HAS_RELATION = re.compile(
    rf"(?i){SUBJECT}have\s+(?:an?|one|two|three|four|five|\d+|no)\s+(?:[\w-]+\s+){{0,2}}?(?:{RELATIONS})s?\b"
)
RELATION_VERB = re.compile(
    r"(?i)\b(?:is|are|was|were|has|had|lives?|works?|go(?:es)?|attends?|loves?|likes?|hates?|prefers?|studies|studied|"
    r"moved|got|plays?|speaks?|teaches|called|named|turns?|turned|retires?|retired|died|married|comes?|will|visits?|visited|graduat\w+|"
    r"started|runs?|owns?|drives?|eats?|can['’]t|doesn['’]t|don['’]t)\b"
)
DECISION = re.compile(
    r"(?i)^(?:I|we)(?:\s+have|['’]ve)?\s+(?:finally\s+|just\s+|also\s+)?(?:decided|chose|chosen|"
    r"settled on|agreed)\b(?!\s+(?:on\s+)?(?:this|that|it)\b)"
)
STRONG_EVENT = re.compile(
    rf"(?i)^(?:I|we)(?:\s+have|['’]ve)?\s+{ADV}(?:moved (?:to|from|in|into)|got (?:married|engaged|"
    rf"promoted|divorced|fired|laid off|hired)|adopted|graduated|"
    r"quit (?:my|smoking|drinking|working)|left my job|lost my job|bought (?:an?|my|our|the|two|three|some)\b|sold my|"
    r"started (?:a new job|working at|learning)|joined|"
    r"had (?:[\w-]+ )?surgery|broke my|was promoted|was hired|won (?:an?|the)\b|ran (?:an?|my|the)\b|"
    r"published|defended my|gave birth|founded|retired|signed)\b"
)
DATED_EVENT = re.compile(
    rf"(?i)^(?:I|we)(?:\s+(?:am|are|will|have|had|was|were|just|also|only|finally)|['’](?:m|re|ll|"
    rf"ve))*\s+(?:going to|{ADV.rstrip('*')}*)?\s*(?!wonder|think|ask|want|need|try|tried|"
    rf"see(?!ing (?:the|my|our|an?)\b)|saw|"
    rf"got (?:an? )?(?:error|this|that)|not\b|sure\b)"
    r"(?:[\w-]+ing|[\w-]+ed|will|went|flew|met|took|ran|bought|sold|saw|left|began|drove|gave|had|"
    r"have|has|fly|leave|start|travel|arrive|move|"
    r"get|go|take|meet|visit|run|marry|retire|return|plan|launch|ship|begin|finish|present|defend|"
    r"host|fly|attend|celebrate|become|became|lost|won|made|ate|cooked|swam|rode|broke|spent|read|"
    r"wrote|submitted|turn)\b"
)
NOUN_EVENT = re.compile(
    rf"(?i)^(?:my|our|the|"
    rf"an?)\s+(?:[\w'’-]+\s+){{0,4}}?(?:{EVENT_NOUNS})\b(?:\s+[\w'’-]+){{0,6}}?\s+(?:is|are|was|were|"
    rf"will|starts?|began|begins|ends?|lands|departs|leaves|arrives|opens|closes|expires|takes? place|"
    rf"happens|got moved|moved|falls)\b"
)
PLAN = re.compile(
    r"(?i)^(?:I|we)(?:\s+am|\s+are|['’](?:m|re))?\s+(?:also\s+|now\s+)?(?:planning|plan|intend|"
    r"intending)\s+(?:to|on|a|an|my|our)\b(?!\s+(?:use|try|do|fix) (?:this|that|it))"
)

RULE = re.compile(
    r"(?i)^(?:please\s+|and\s+|also,?\s+)*(?:(?:from now on|from today on|going forward|"
    r"in (?:the )?future|henceforth|as a rule|at all times)\b,?|"
    r"(?:always|never|don['’]?t ever|do not ever)\s+(?!mind|been|seen|heard|had|tried|thought|"
    r"understood|used|knew|wanted|happened|worked|"
    r"got|liked|the\b|a\b)(?=[a-z]+\b)|(?:whenever|every time|each time|when(?=\s+I\s+ask))\s+(?:I|"
    r"you)\b.{3,80}?,\s*(?:please\s+|always\s+|never\s+|do not\s+|don['’]?t\s+)?[a-z]+)"
)
RULE_CLAUSE = re.compile(
    r"(?i)^I\s+(?:want|need|would like|['’]?d like|expect)\s+you\s+to\s+(?:always|never)\b|"
    r"^you\s+(?:must|should)\s+(?:always|never)\b|"
    r"^(?:please\s+)?keep\s+(?:all\s+)?your\s+(?:[\w-]+\s+)?(?:answers?|repl(?:y|ies)|responses?|messages?|"
    r"explanations?|comments?|summar(?:y|ies)|tone|language)\b|"
    r"^(?!I\b|we\b|my\b)[a-z]+\b.{3,}\b(?:from now on|from today on|going forward|in (?:the )?future|"
    r"at all times)[.!]*$"
)
LANGUAGE_RULE = re.compile(
    rf"(?i)^(?:please\s+)?(?:always\s+)?(?:answer|reply|respond|write|speak|talk)(?:\s+(?:to me|me|"
    rf"back))?\s+(?:only\s+)?in\s+(?:{LANGUAGES})\b(?!\s+(?:to|the|this|that|how)\b)"
)
CALL_ME = re.compile(
    r"^(?:[Pp]lease\s+|[Yy]ou can\s+|[Jj]ust\s+)*[Cc]all me\s+(?:[\"'“]?)(?P<name>[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)?)"
)
ONE_OFF = re.compile(
    r"(?i)\b(?:for (?:this|the) (?:\w+ )?(?:only|test|once|task|time|session|chat|conversation|"
    r"message|answer|question|exercise|demo)|just (?:this once|this time|for now|once|today)|"
    r"this time(?: only)?|only this once|for now|for the moment|for today|in this (?:session|chat|"
    r"conversation|thread|message|file|function|test|reply|answer)|"
    r"until I (?:say|tell)|right now|this test)\b"
)
ONE_OFF_ASK = re.compile(
    r"(?i)\b(?:reply|answer|respond|say|write|use|skip|ignore|call|speak|act|do|don['’]?t|never|always|only)\b"
)
REMEMBER = re.compile(
    r"(?i)^(?:please\s+|and\s+|also\s+)*(?:remember|note|keep in mind|don['’]t forget|do not forget|"
    r"make a note|for your notes|save to memory|memori[sz]e)(?:\s+this)?\s*(?:(?:that|:|"
    r",)\s*)(?P<rest>.{4,})"
)
