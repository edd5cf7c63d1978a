"""Words that tell a search nothing. They are left out of queries only; the index keeps them.

Words that turn a meaning round or name a place in time ("never", "before", 以前) are not among them.
"""

from __future__ import annotations

_ENGLISH = """
a about am an and any are as at be been being but by can could did do does doing done for from had has have having he
her hers herself him himself his how i if in into is it its itself just let me mine my myself no nor not of off on or
our ours ourselves out over own please she should so some such tell than that the their theirs them themselves then
there these they this those to too us very was we were what when where which while who whom whose why will with would
you your yours yourself yourselves shall may might must also ever only same here again both each more most other until
aren't can't cannot couldn't didn't doesn't don't hadn't hasn't haven't isn't shouldn't wasn't weren't won't wouldn't
i'm i've i'll i'd you're you've you'll you'd he'd he'll she'd she'll we're we've we'll we'd they're they've they'll
they'd it'll that'll there'll what're who're who'll who'd im ive dont doesnt didnt cant isnt wasnt whats
"""

_CHINESE = """
的 了 着 过 地 得 之 乎 者 也 是 在 有 和 与 及 以及 或 或者 并 并且 而 而且 但 但是 因为 所以 如果 那么 就 都
还 又 再 很 太 更 最 把 被 给 让 使 对 向 从 到 为 为了 以 于 由 跟 同 比 等 等等 吗 呢 吧 啊 呀 哦 嗯 哈 嘛
啦 哇 我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱 咱们 自己 人家 大家 我的 你的 您的 他的 她的 它的 这
那 这个 那个 这些 那些 这里 那里 这儿 那儿 这样 那样 这么 此 该 其 其中 某 每 各 什么 甚么 怎么 怎样 怎么样
怎么办 如何 哪 哪里 哪儿 哪个 哪些 哪位 谁 几 多少 何 何时 为什么 为何 是否 是不是 有没有 能不能 不 没 没有 无
别 要 会 能 可 可以 应该 应当 需要 必须 想 想要 请 请问 请你 麻烦 帮 帮我 告诉 告诉我 知道 记得 还记得 一下 一
个 一个 一些 一种 种 些 次 位 件 条 只 说 讲 说过 提到 上 下 里 中 内 来 去 做 时 时候 什么时候 么 关于 有关
哪天
"""

STOP_WORDS = frozenset((_ENGLISH + _CHINESE).split())
