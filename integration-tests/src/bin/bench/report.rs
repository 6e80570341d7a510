//! The table at the end.

/// One line: a candidate's median beside the one it is measured against.
pub struct Row {
    /// The work.
    pub work: String,
    /// Who did it.
    pub candidate: String,
    /// All rounds.
    pub rounds: Vec<f64>,
    /// Of the rounds.
    pub unit: &'static str,
    /// Median of the one to compare with.
    pub baseline: f64,
    /// Its name.
    pub baseline_name: &'static str,
}

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Prints all lines.
pub fn print(rows: &[Row]) {
    println!();
    println!("| work | candidate | median | lowest – highest | ratio |");
    println!("|---|---|---|---|---|");
    for row in rows {
        let middle = median(&row.rounds);
        let lowest = row.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = row.rounds.iter().copied().fold(0.0, f64::max);
        println!(
            "| {} | {} | {middle:.0} {} | {lowest:.0} – {highest:.0} | {:.2} × {} |",
            row.work,
            row.candidate,
            row.unit,
            middle / row.baseline,
            row.baseline_name
        );
    }
}
