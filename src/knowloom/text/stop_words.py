"""Words that say little in a question, by language."""

from __future__ import annotations

from collections.abc import Sequence

from knowloom.text.normalisation import strip_accents

ENGLISH = "english"
# Another language needs so many of its own words in a question: "die hard" is not German.
MIN_WORDS = 2

# The most frequent English words are left out of a query: nearly every text has them.
_FREQUENT = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there
    these they this to was will with"""
# Others count a tenth: question words, pronouns, auxiliaries, polite words, ends of contractions.
_OTHERS = {
    ENGLISH: """
    about above after again all also although am among any anyone anything because been before
    being below between both can cannot could d did didn do does doesn doing don done during each
    either else ever every few from further get got had has have haven having he her here hers
    herself him himself his how however i isn its itself just know let lets like ll m me might
    mine more most much must my myself neither nor now off once only other others our ours
    ourselves out over own please re s same shall she should shouldn since so some someone
    something t tell than them themselves though through thus too under until up upon us ve very
    via wasn we were weren what whatever when where whether which while who whom whose why within
    without won would wouldn yes yet you your yours yourself""",
    "german": """
    aber als am an auch auf aus bei bin bis bitte da damit dann das dass dein dem den der des die
    dies diese diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er es
    etwas euch für gegen hat hatte habe haben ich ihm ihn ihnen ihr ihre im in ist ja jede jeder
    kann kein keine können man mein mich mir mit muss nach nicht noch nur ob oder ohne sehr sein
    seine sich sie sind so soll sollte über um und uns unser unter vom von vor wann war waren
    warum was welche welchem welchen welcher welches wem wen wenn wer werden wie wieso will wir
    wird wo wurde wurden zu zum zur""",
    "french": """
    a ai au aux avec avez avons ce ces cet cette comment dans de des du elle elles en est et eu
    il ils je la le les leur leurs lui ma mais me mes moi mon ne nos notre nous on ont ou où par
    pas peut peux plus pour pourquoi qu quand que quel quelle quelles quels qui quoi sa sans se
    sera ses si son sont sur ta te tes toi ton tu un une veux vos votre vous y à été être""",
    "spanish": """
    a al algo ante como con cual cuál cuáles cuando cuándo de del desde donde dónde el ella ellas
    ellos en entre era es esa ese eso esta está están este esto estos fue fueron ha han hasta hay
    la las le les lo los me mi mis muy más nos nosotros o otra otro para pero por porque puede
    puedo que qué quien quién quiénes se ser si sin sobre son su sus también te tiene tu un una
    unas uno unos y ya yo""",
    "italian": """
    a agli ai al alla alle allo anche che chi ci col come con cosa cui da dagli dai dal dalla
    dalle degli dei del della delle dello di dove e ed era gli ha hanno ho i il in io la le lei
    lo loro lui ma mi mia mio ne negli nei nel nella nelle noi non o per perché più posso può
    qual quale quali quando quanto questa queste questi questo se sei si sono su sua sue sugli
    sui sul sulla suo te ti tra tu un una uno vi voi è""",
    "portuguese": """
    a ao aos as às com como da das de dela dele do dos e ela elas ele eles em entre era essa esse
    esta está este eu foi foram há isso isto já lhe mais mas me meu minha muito na nas não no nos
    nós o os ou onde para pela pelas pelo pelos pode por porque posso quais qual quando que quem
    se sem ser seu seus sobre sua suas são também te tem um uma uns você à é""",
    "dutch": """
    aan al alle als bij daar dan dat de deze die dit door een en er geen haar had hebben heeft
    het hij hoe hun ik in is je kan kunnen maar me met mij mijn moet naar niet nog of om onder
    ons onze ook op over te tot u uit uw van veel voor waar waarom wanneer was wat we welk welke
    werd werden wie wij worden wordt zal ze zich zij zijn zo zonder zou""",
    "swedish": """
    alla allt att av blev blir de dem den denna deras dess det detta dig din där efter eller en
    er ett från för ha hade han hans har hon hur här i icke inte jag kan man med men mig min mot
    mycket måste nu när och om oss på samma sedan sig sin ska skulle som så till under upp ut
    utan vad var varför vara vem vi vid vilka vilken vilket än är över""",
    "russian": """
    а без был была были было быть в вам вас вы где да для до его ее если есть еще же за и из или
    им их к как какая какие каким какой когда которая которые который кто ли мне можно мой мы на
    над не него нее нет них но о об он она они оно от по почему при про с свой со так там то
    только ты у уже чего чем что чтобы эта эти это этот я""",
}

FREQUENT_WORDS = frozenset(_FREQUENT.split())
STOP_WORDS = {
    language: frozenset(strip_accents(words).split()) for language, words in _OTHERS.items()
}
STOP_WORDS[ENGLISH] |= FREQUENT_WORDS


def detect_language(words: Sequence[str]) -> str:
    """Return the language with most of its stop words among words in lower case, without accents.

    English unless another one has more, and MIN_WORDS that are no English stop words.
    """
    distinct = frozenset(words)
    counts = {language: len(distinct & stop_words) for language, stop_words in STOP_WORDS.items()}
    best = max(counts, key=counts.__getitem__)  # the first of equal ones, English before others
    foreign = (distinct & STOP_WORDS[best]) - STOP_WORDS[ENGLISH]
    return best if len(foreign) >= MIN_WORDS else ENGLISH
