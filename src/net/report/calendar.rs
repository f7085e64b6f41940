//! Seconds since the Unix epoch as a date and a time of day.

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `YYYY-mm-dd HH:MM:SS`, as the error log has it; `offset` is what local time is ahead of UTC.
pub fn local_time(second: u64, offset: i64) -> String {
    let ((year, month, day), (hour, minute, sec)) = local(second, offset);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{sec:02}")
}

/// Year, month and day, then hour, minute and second, where local time is `offset` seconds ahead of UTC.
pub fn local(second: u64, offset: i64) -> ((i64, i64, i64), (i64, i64, i64)) {
    let local = i64::try_from(second).unwrap_or(0) + offset;
    let time = (local.rem_euclid(86_400) / 3600, local.rem_euclid(3600) / 60, local.rem_euclid(60));
    (civil(local.div_euclid(86_400)), time)
}

/// The short English name of a month, counted from 1.
pub fn name(month: i64) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"")
}

/// Year, month and day of a day counted from the Unix epoch, in the Gregorian calendar. Years begin in March here, so
/// that the leap day is the last of its year; 400 years have 146,097 days.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_778, (2026, 11, 21)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(civil(day), date);
        }
    }
}
