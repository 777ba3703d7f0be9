//! Dates in words, as Python's `strftime` writes them in English.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_PER_DAY: u64 = 86_400;

/// A moment as a calendar has it, in universal time.
struct Date {
    year: u64,
    /// 0 for January.
    month: usize,
    /// 1 for the first of a month.
    day: u64,
    /// 0 for the first of January.
    day_of_year: u64,
    /// 0 for Sunday.
    weekday: usize,
    second_of_day: u64,
}

impl Date {
    /// Moments before 1970 count as its beginning.
    fn of(moment: SystemTime) -> Self {
        let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let days = seconds / SECONDS_PER_DAY;
        let (mut year, mut rest) = (1970, days);
        while rest >= days_of(year) {
            rest -= days_of(year);
            year += 1;
        }
        let day_of_year = rest;
        let mut month = 0;
        while rest >= days_of_month(year, month) {
            rest -= days_of_month(year, month);
            month += 1;
        }
        // The first of January 1970 was a Thursday.
        let weekday = ((days + 4) % 7) as usize;
        Self { year, month, day: rest + 1, day_of_year, weekday, second_of_day: seconds % SECONDS_PER_DAY }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of_month(year: u64, month: usize) -> u64 {
    match month {
        1 => 28 + u64::from(is_leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Writes `moment`, in universal time, as `format` says; a directive that is not known is an error.
pub(super) fn strftime(moment: SystemTime, format: &str) -> Result<String, String> {
    let date = Date::of(moment);
    let (hour, minute, second) = (date.second_of_day / 3600, date.second_of_day / 60 % 60, date.second_of_day % 60);
    let (year, month, day) = (date.year, date.month + 1, date.day);
    let hour_of_twelve = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let directive = rest.next();
        // `%-d` is `%d` without the zero in front.
        let (is_bare, directive) = if directive == Some('-') { (true, rest.next()) } else { (false, directive) };
        let two = |number: u64| if is_bare { number.to_string() } else { format!("{number:02}") };
        let written = match directive {
            Some('Y') => write!(out, "{year:04}"),
            Some('y') => write!(out, "{}", two(year % 100)),
            Some('m') => write!(out, "{}", two(month as u64)),
            Some('B') => write!(out, "{}", MONTHS[date.month]),
            Some('b' | 'h') => write!(out, "{}", &MONTHS[date.month][..3]),
            Some('d') => write!(out, "{}", two(day)),
            Some('e') => write!(out, "{day:>2}"),
            Some('j') if is_bare => write!(out, "{}", date.day_of_year + 1),
            Some('j') => write!(out, "{:03}", date.day_of_year + 1),
            Some('A') => write!(out, "{}", DAYS[date.weekday]),
            Some('a') => write!(out, "{}", &DAYS[date.weekday][..3]),
            Some('w') => write!(out, "{}", date.weekday),
            Some('u') => write!(out, "{}", (date.weekday + 6) % 7 + 1),
            Some('H') => write!(out, "{}", two(hour)),
            Some('I') => write!(out, "{}", two(hour_of_twelve)),
            Some('M') => write!(out, "{}", two(minute)),
            Some('S') => write!(out, "{}", two(second)),
            Some('p') => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
            Some('F') => write!(out, "{year:04}-{month:02}-{day:02}"),
            Some('T') => write!(out, "{hour:02}:{minute:02}:{second:02}"),
            Some('D') => write!(out, "{month:02}/{day:02}/{:02}", year % 100),
            Some('R') => write!(out, "{hour:02}:{minute:02}"),
            Some('Z') => write!(out, "UTC"),
            Some('z') => write!(out, "+0000"),
            Some('%') => write!(out, "%"),
            Some(other) => return Err(format!("strftime_now does not know %{other}")),
            None => return Err("a strftime_now format ends in %".into()),
        };
        written.map_err(|e| e.to_string())?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::strftime;

    fn at(seconds: u64, format: &str) -> Result<String, String> {
        strftime(UNIX_EPOCH + Duration::from_secs(seconds), format)
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Moments as other calendars have them: the ends of a leap year, of a century that is none, and a day in between.
        let cases = [
            (0, "1970-01-01 Thu 001"),
            (31_536_000, "1971-01-01 Fri 001"),
            (951_782_400, "2000-02-29 Tue 060"),
            (951_868_800, "2000-03-01 Wed 061"),
            (978_307_199, "2000-12-31 Sun 366"),
            (1_721_952_000, "2024-07-26 Fri 208"),
            (4_107_542_400, "2100-03-01 Mon 060"),
        ];
        for (seconds, want) in cases {
            assert_eq!(at(seconds, "%Y-%m-%d %a %j").as_deref(), Ok(want));
            assert_eq!(at(seconds, "%F %a %j").as_deref(), Ok(want));
        }
    }

    #[test]
    fn directives_are_those_of_python() {
        let moment = 1_722_834_309; // 2024-08-05 05:05:09
        let cases = [
            ("%d %B %Y", "05 August 2024"),
            ("%-d %b %y", "5 Aug 24"),
            ("%e|%A|%w|%u", " 5|Monday|1|1"),
            ("%H:%M:%S %T %R", "05:05:09 05:05:09 05:05"),
            ("%I %p %-H %-j", "05 AM 5 218"),
            ("%D 100%% %Z%z", "08/05/24 100% UTC+0000"),
        ];
        for (format, want) in cases {
            assert_eq!(at(moment, format).as_deref(), Ok(want), "{format}");
        }
        assert_eq!(at(4 * 86_400, "%-j %j").as_deref(), Ok("5 005"));
        assert_eq!(at(43_200, "%I %p").as_deref(), Ok("12 PM"));
        assert_eq!(at(0, "%I %p").as_deref(), Ok("12 AM"));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(at(0, "%Q"), Err("strftime_now does not know %Q".into()));
        assert!(at(0, "100%").is_err());
    }
}
