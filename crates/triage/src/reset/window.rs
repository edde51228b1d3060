//! Which usage window a text names.

use crate::Window;

/// The usage window that folded words name; the first one, and none where two stand side by side as
/// alternatives (`weekly/monthly`).
pub fn window_in<'t>(texts: impl Iterator<Item = &'t str>) -> Option<Window> {
    texts.filter_map(in_text).next().flatten()
}

fn in_text(text: &str) -> Option<Option<Window>> {
    let mut first: Option<(usize, usize, Window)> = None;
    for (names, window) in NAMES {
        for name in names {
            if let Some(at) = find_word(text, name)
                && first.is_none_or(|(known, _, _)| at < known)
            {
                first = Some((at, at + name.len(), window));
            }
        }
    }
    let (_, end, window) = first?;
    let rest = text.get(end..).unwrap_or_default();
    let alternative = rest.starts_with('/')
        && NAMES
            .iter()
            .flat_map(|(names, _)| *names)
            .any(|name| rest.strip_prefix('/').is_some_and(|rest| rest.trim_start().starts_with(name)));
    Some(Some(window).filter(|_| !alternative))
}

/// Where a name stands as a word of its own (where its ends are letters or digits).
fn find_word(text: &str, name: &str) -> Option<usize> {
    text.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|text| text.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
        let joins = |edge: Option<char>, own: Option<char>| {
            edge.is_some_and(|edge| edge.is_ascii_alphanumeric())
                && own.is_some_and(|own| own.is_ascii_alphanumeric())
        };
        let compound = COMPOUNDS.contains(&name);
        !joins(before, name.chars().next()) && (compound || !joins(after, name.chars().next_back()))
    })
}

/// Names that begin a longer word, as German and the Slavic languages form them.
const COMPOUNDS: [&str; 6] = ["tages", "wochen", "monats", "täglich", "wöchentlich", "monatlich"];

const NAMES: [(&[&str], Window); 5] = [
    (
        &[
            "per minute",
            "per min",
            "per-minute",
            "/min",
            "/ min",
            "/minute",
            "/ minute",
            "rpm",
            "tpm",
            "per second",
            "rps",
            "requests/min",
            "minute",
            "qpm",
            "qps",
            "每分钟",
            "每秒",
            "perminute",
            "每分",
            "分钟",
            "分間",
            "분당",
            "pro minute",
            "por minuto",
            "par minute",
            "в минуту",
            "(rpm)",
            "(tpm)",
        ],
        Window::Minute,
    ),
    (
        &[
            "5-hour",
            "5 hour",
            "5 hours",
            "5h",
            "five-hour",
            "five hour",
            "5 小时",
            "5小时",
            "five_hour",
            "session limit",
            "session usage limit",
            "5時間",
            "5시간",
            "5 stunden",
            "5 horas",
            "5 heures",
            "5 часов",
        ],
        Window::FiveHours,
    ),
    (
        &[
            "per day",
            "per-day",
            "daily",
            "rpd",
            "tpd",
            "/day",
            "/ day",
            "24 hours",
            "24-hour",
            "24h",
            "每日",
            "每天",
            "今日",
            "今天",
            "当日",
            "perday",
            "1 day",
            "today",
            "日流控",
            "本日",
            "1日",
            "日次",
            "일일",
            "하루",
            "오늘",
            "tages",
            "täglich",
            "tägliches",
            "diario",
            "diaria",
            "diarias",
            "quotidien",
            "quotidienne",
            "journalière",
            "journalier",
            "diário",
            "diária",
            "giornaliero",
            "дневно",
            "суточн",
        ],
        Window::Daily,
    ),
    (
        &[
            "weekly",
            "per week",
            "7-day",
            "7 day",
            "7 days",
            "7 天",
            "7天",
            "每周",
            "本周",
            "1-week",
            "1 week",
            "/week",
            "week",
            "seven_day",
            "今週",
            "週間",
            "주간",
            "이번 주",
            "wöchentlich",
            "wochen",
            "semanal",
            "hebdomadaire",
            "settimanale",
            "недельн",
            "7d",
        ],
        Window::Weekly,
    ),
    (
        &[
            "monthly",
            "per month",
            "/month",
            "/ month",
            "1 month",
            "1-month",
            "month",
            "每月",
            "本月",
            "当月",
            "今月",
            "月間",
            "월간",
            "이번 달",
            "monatlich",
            "monats",
            "mensual",
            "mensuel",
            "mensuelle",
            "mensal",
            "mensile",
            "месячн",
        ],
        Window::Monthly,
    ),
];
