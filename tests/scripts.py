"""One short news text of three sentences in each of twelve scripts, for tests and the soak: nothing
is copied, the sentences say that rain fell, that the river rose, and that nobody was hurt."""

TEXTS = {
    "Latin": "Heavy rain fell on Monday. The river rose by two metres. Nobody was hurt.",
    "Cyrillic": "В понедельник шёл сильный дождь. Река поднялась на два метра. Никто не пострадал.",
    "Greek": "Τη Δευτέρα έβρεξε πολύ. Το ποτάμι ανέβηκε δύο μέτρα. Κανείς δεν τραυματίστηκε.",
    "Arabic": "هطل مطر غزير يوم الاثنين. ارتفع النهر مترين. لم يصب أحد.",
    "Hebrew": "גשם כבד ירד ביום שני. הנהר עלה בשני מטרים. איש לא נפגע.",
    "Devanagari": "सोमवार को भारी बारिश हुई। नदी दो मीटर बढ़ गई। किसी को चोट नहीं आई।",
    "Tamil": "திங்களன்று கனமழை பெய்தது. ஆறு இரண்டு மீட்டர் உயர்ந்தது. யாருக்கும் காயம் இல்லை.",
    "Hangul": "월요일에 폭우가 내렸다. 강이 이 미터 올랐다. 다친 사람은 없었다.",
    "Han": "星期一下了大雨。河水上涨了两米。没有人受伤。",
    "Japanese": "月曜日に大雨が降った。川は二メートル上がった。けが人はいなかった。",
    "Khmer": "ភ្លៀងធ្លាក់ខ្លាំងនៅថ្ងៃចន្ទ។ ទន្លេឡើងពីរម៉ែត្រ។ គ្មាននរណារងរបួសទេ។",
    "Thai": "วันจันทร์มีฝนตกหนัก แม่น้ำสูงขึ้นสองเมตร ไม่มีใครได้รับบาดเจ็บ",
}
UNSPACED = ("Han", "Japanese", "Khmer", "Thai")
UNMARKED = ("Thai",)
"""No mark ends a sentence: where sentences end is not known."""
