"""The scene a fact belongs to: a few broad themes, told by keywords, in the language of the fact."""

from __future__ import annotations

import re

from memory_tencentdb_worker.offline.words_en import OCCUPATION

_TOPICS: tuple[tuple[str, str, str, str], ...] = (
    # English name, Chinese name, English words, Chinese words; the first theme with a word in the text wins
    (
        "Food and health",
        "饮食与健康",
        r"allerg\w*|vegetarian|vegan|gluten|lactose|celiac|coeliac|diabet\w*|asthma\w*|intoleran\w*|"
        r"pregnan\w*|migraines?|surgery|doctor|"
        r"medication|medicine|insulin|blood|diet|pills?|eats?|eating|food|dish|drinks?|coffee|tea|"
        r"cook\w*|restaurant|spicy|peanuts?|meat|fish|"
        r"cilantro|sushi|ramen|gym|marathon|yoga|health\w*|hospital|therapy",
        "过敏|素食|吃|喝|菜|饭|咖啡|茶|辣|海鲜|花生|医院|医生|手术|病|症|药|不耐受|血|健身|跑步|马拉松|瑜伽|香菜|减肥",
    ),
    (
        "Travel",
        "旅行",
        r"travel\w*|trip|flights?|fly|flies|flying|flew|airport|hotel|vacation|holidays?|visa|"
        r"passport|train|visit(?:s|ed|ing)?|"
        r"backpack\w*|seat",
        "旅行|旅游|航班|飞|机票|酒店|签证|护照|高铁|火车|出差|度假|[要想会]去|去过",
    ),
    (
        "Work",
        "工作",
        rf"{OCCUPATION}|work\w*|jobs?|company|employer|boss|manager|colleagues?|team|office|project|startup|"
        r"deadline|meeting|client|customers?|engineer\w*|"
        r"developer|teach\w*|nurse|designer|interview|promot\w+|salary|release|launch\w*|deploy\w*|"
        r"code|coding|programming|python|rust|"
        r"typescript|database|postgres\w*|kubernetes|server|API|software|university|study|studies|"
        r"studying|exam|thesis|degree|PhD|hired|"
        r"conference|demo",
        "工作|上班|公司|老板|同事|经理|团队|项目|会议|开会|客户|工程师|程序|代码|编程|面试|升职|加薪|"
        "发布|上线|数据库|服务器|大学|读书|读研|"
        "考试|论文|专业|实习|老师|设计师|律师|会计|创业",
    ),
    (
        "Home and family",
        "家庭与居住",
        r"sisters?|brothers?|mother|mom|mum|father|dad|parents?|wife|husband|partner|girlfriend|"
        r"boyfriend|fianc\w+|sons?|daughters?|kids?|child|"
        r"children|twins?|cousin|uncle|aunt|grand\w+|nephew|niece|family|dogs?|cats?|puppy|kitten|"
        r"parrot|rabbit|house|apartment|flat|home|"
        r"hometown|birthday|moved|moving|moves|lives?|born|grew|married|wedding|engaged|divorced|garden|friend\w*|neighbou?r",
        "妈妈|母亲|爸爸|父亲|父母|姐姐|妹妹|哥哥|弟弟|老婆|妻子|丈夫|老公|女朋友|男朋友|女儿|儿子|"
        "孩子|奶奶|爷爷|外婆|外公|家人|朋友|狗|猫|"
        "房子|公寓|家|老家|生日|搬|住|出生|长大|结婚|婚礼|订婚|离婚|双胞胎",
    ),
    (
        "Interests",
        "兴趣爱好",
        r"plays?|sings?|paint\w*|music\w*|band|orchestra|choir|concerts?|guitar|piano|violin|viola|cello|books?|novels?|"
        r"reads?|reading|writer|films?|movies?|series|podcasts?|games?|chess|photograph\w*|hik\w+|climb\w*|bouldering|"
        r"cycl\w+|runs?|running|swim\w*|football|collects?|hobby|hobbies|loves?|likes?|enjoys?|adores?|prefers?|hates?|"
        r"dislikes?|favou?rite|fond|fan|interested",
        "喜欢|爱好|热爱|讨厌|偏爱|偏好|感兴趣|兴趣|音乐|乐队|钢琴|吉他|电影|小说|看书|读书|游戏|象棋|围棋|摄影|"
        "画画|唱歌|跳舞|爬山|徒步|游泳|足球|篮球|收集",
    ),
)
RULES_EN, RULES_ZH = "Rules", "约定"
DAILY_EN, DAILY_ZH = "Daily life", "日常生活"

_COMPILED = tuple(
    (english, chinese, re.compile(rf"(?i)\b(?:{words})\b"), re.compile(characters))
    for english, chinese, words, characters in _TOPICS
)


def topic_of(content: str, *, chinese: bool) -> str:
    for english_name, chinese_name, words, characters in _COMPILED:
        if chinese and (characters.search(content) or words.search(content)):
            return chinese_name
        if not chinese and words.search(content):
            return english_name
    return DAILY_ZH if chinese else DAILY_EN


def rules_topic(*, chinese: bool) -> str:
    return RULES_ZH if chinese else RULES_EN
