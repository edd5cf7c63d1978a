"""Word lists of the English rules, as parts of regular expressions."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ADVERBS = (
    "really|also|just|currently|now|usually|still|absolutely|totally|truly|generally|mostly|strongly|"
    "definitely|honestly|personally|"
    "actually|mainly|deeply|genuinely|especially|particularly|much|both|recently|finally|always|"
    "severely|mildly|very|extremely|so"
)
HEALTH = (
    r"allergic|vegetarian|(?:a )?vegan|(?:a )?vegetarian|pescatarian|(?:a )?pescatarian|"
    r"lactose[- ]intolerant|gluten[- ]intolerant|intolerant|diabetic|"
    r"asthmatic|pregnant|(?:a )?coeliac|(?:a )?celiac|epileptic|dyslexic|hypertensive|"
    r"allerg(?:y|ies)|asthma|diabetes|migraines?|epilepsy|(?:high|low) blood pressure|hypertension|"
    r"celiac disease|coeliac disease|arthritis|"
    r"eczema|anemia|anaemia|insomnia|ADHD|dyslexia|hay fever|a pacemaker|IBS|gout|psoriasis|tinnitus|"
    r"scoliosis|depression"
)
LANGUAGES = (
    "english|german|french|spanish|italian|portuguese|chinese|mandarin|cantonese|japanese|korean|"
    "hindi|arabic|russian|dutch|polish|turkish|"
    "swedish|norwegian|danish|finnish|greek|czech|ukrainian|vietnamese|thai|indonesian|hebrew|"
    "hungarian|romanian|catalan|"
    "plain english|simplified chinese|traditional chinese|brazilian portuguese|british english|american english"
)
OCCUPATION = (
    r"nurse|chef|cook|student|teacher|professor|doctor|physician|surgeon|dentist|vet|veterinarian|"
    r"lawyer|attorney|engineer|developer|"
    r"programmer|designer|architect|scientist|researcher|writer|author|journalist|editor|translator|"
    r"photographer|musician|painter|artist|"
    r"actor|actress|director|producer|manager|consultant|accountant|analyst|economist|banker|trader|"
    r"founder|entrepreneur|freelancer|"
    r"contractor|carpenter|plumber|electrician|mechanic|driver|pilot|farmer|gardener|baker|barista|"
    r"waiter|waitress|bartender|librarian|"
    r"pharmacist|psychologist|therapist|physicist|chemist|biologist|mathematician|historian|geologist|"
    r"astronomer|statistician|sysadmin|"
    r"administrator|officer|firefighter|soldier|sailor|postdoc|undergraduate|graduate|intern|"
    r"apprentice|trainee|coach|trainer|tutor|"
    r"technician|salesperson|recruiter|secretary|receptionist|beekeeper|fisherman|tailor|jeweller|"
    r"jeweler|potter|welder|paramedic|midwife|"
    r"optician|radiologist|cardiologist|data scientist|PhD student|SRE|CTO|CEO|CFO|COO|PM|QA|DevOps engineer"
)
RELATIONS = (
    "sister|brother|mother|mom|mum|father|dad|parents|wife|husband|partner|girlfriend|boyfriend|"
    "fiancee?|fiancée?|son|daughter|kids?|child|"
    "children|twins|cousin|uncle|aunt|grandmother|grandma|grandfather|grandpa|grandparents|nephew|"
    "niece|friend|colleague|coworker|co-worker|"
    "boss|manager|mentor|roommate|flatmate|neighbou?r|dog|cat|puppy|kitten|parrot|rabbit|horse|"
    "hamster|mother-in-law|father-in-law|"
    "brother-in-law|sister-in-law|stepmother|stepfather|godson|goddaughter|family"
)
ATTRIBUTES = (
    r"birthday|favou?rite(?:\s+[\w-]+){1,3}|hometown|home town|address|e-?mail(?: address)?|"
    r"phone(?: number)?|mobile number|blood type|shoe size|height|weight|"
    r"native language|mother tongue|locker code|locker|licen[cs]e plate|hobby|hobbies|diet|car|bike|"
    r"bicycle|motorbike|boat|startup|company|employer|"
    r"job|profession|time ?zone|nationality|major|team|side project|project|product|thesis|degree|"
    r"editor of choice|main language|pronouns|"
    r"nickname|star sign|zodiac sign|dream|goal|anniversary|surname|last name|house|apartment|flat|"
    r"garden|doctor|dentist|school|university|"
    r"github(?: handle| username)?|handle|username|allerg(?:y|ies)|laptop|keyboard|guitar|piano|band|"
    r"book|blog|website"
)
POSSESSIONS = (
    r"dogs?|cats?|pupp(?:y|ies)|kittens?|parrots?|rabbits?|horses?|hamsters?|turtles?|chickens|bees|"
    r"beehives|hives|car|cars|bikes?|bicycles?|"
    r"motorbike|motorcycle|boat|van|house|apartment|flat|garden|farm|kids|children|child|sons?|"
    r"daughters?|brothers?|sisters?|siblings|twins|"
    r"company|startup|bakery|shop|store|restaurant|cafe|café|degree|PhD|master's|bachelor's|tattoos?|"
    r"piano|guitar|violin|telescope|"
    r"boats?|dinghy|canoe|kayak|yacht|caravan|camper|tractor|scooter|cabin|cottage|sauna|workshop|"
    r"greenhouse|allotment|blog|podcast|licence|license"
)
COMMANDS = r"(?:npm|npx|pip|git|docker|make|cmake|pytest|cargo|yarn|apt|brew|kubectl|python|node|sudo|bash|curl)\b"
EVENT_NOUNS = (
    r"meeting|deadline|launch|exam|exams|(?:driving|blood|eye|language|citizenship) test|"
    r"check-?up|audition|wedding|flight|appointment|interview|release|birthday|trip|"
    r"conference|surgery|operation|party|demo|"
    r"concert|move|marathon|race|presentation|defen[cs]e|thesis|vacation|holiday|holidays|anniversary|"
    r"visa|contract|lease|kickoff|"
    r"review|offsite|workshop|graduation|funeral|baby|course|semester|term|freeze|migration|sprint|"
    r"match|game|tournament|delivery|rent|exhibition"
)
NOT_NAMES = words(
    "a an the not ok okay fine good great sorry here there back done ready sure glad happy sad tired "
    "busy home new late early german french "
    "spanish italian portuguese chinese japanese korean indian american british canadian brazilian "
    "dutch polish russian turkish swiss "
    "austrian swedish norwegian danish finnish greek mexican australian irish ukrainian european "
    "asian african catholic christian muslim "
    "jewish buddhist hindu vegan vegetarian from in at on interested looking trying using working "
    "called named important what why how"
)
