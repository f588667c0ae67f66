//! Attacks Rudy and nginx with clients of HTTP/2, HTTP/3 and TLS, and prints what this costs them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints")]

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use rudy_tests::Certificates;
use rudy_tests::attacks::{ATTACKS, Attack, Cost, Target, measure};

/// How to choose the program, and examples.
const HELP: &str = "\
Prints a Markdown table. The first column describes a step of the attack. CPU time is that of a
step: the median of the rounds, and the ratio of the servers with its lowest and highest round.
Memory is the largest growth at its peak, without files. An end such as
`ENHANCE_YOUR_CALM after 500` is the code with which a server ends a connection, and the steps
until then; the attacker then connects again. Meanwhile other clients send requests.

Each server has one worker, and is started again for each attack and round. RUDY_BINARY is the
path of Rudy; without it, Rudy is built. nginx is measured if it is installed (apt install nginx),
except with attacks on QUIC, which Debian's nginx does not have.

Examples:
  RUDY_BINARY=target/dist/rudy attacks
  attacks --only rapid-reset --only ping --rounds 1 --percent 10

The exit code is 1 if Rudy does not serve the other clients.";

/// Attacks Rudy and nginx with clients of HTTP/2, HTTP/3 and TLS, and prints what this costs them
#[derive(Parser)]
#[command(name = "attacks", after_help = HELP)]
struct Arguments {
    /// Run only this attack; repeatable
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(ATTACKS.map(|attack| attack.name)))]
    only: Vec<String>,
    /// Number of rounds, in which the servers are first by turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Percentage of the steps of each attack
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    percent: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some(certificates) = Certificates::for_host("localhost", "localhost") else {
        eprintln!("error: openssl is not installed, which makes the certificate (apt install openssl)");
        return ExitCode::FAILURE;
    };
    if rudy_tests::program("nginx").is_none() {
        eprintln!("nginx is not installed (apt install nginx); only Rudy is measured");
    }
    println!(
        "| attack: steps | CPU of a step: Rudy | nginx | Rudy / nginx (lowest and highest round) | memory: Rudy | nginx \
         | Rudy's end of a connection | nginx's | others served: Rudy | nginx |\n|---|--:|--:|--:|--:|--:|---|---|---|---|"
    );
    let chosen =
        |attack: &&Attack| arguments.only.is_empty() || arguments.only.iter().any(|name| name == attack.name);
    let mut serves_others = true;
    for attack in ATTACKS.iter().filter(chosen) {
        let costs = Costs::measure(attack, &arguments, &certificates);
        serves_others &= costs.rudy.iter().all(|cost| cost.serves_others);
        println!("| `{}`: {}{}", attack.name, attack.step, costs.cells());
    }
    if serves_others { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What an attack costs the servers in each round.
struct Costs {
    rudy: Vec<Cost>,
    /// Empty if nginx is not installed.
    nginx: Vec<Cost>,
}

impl Costs {
    fn measure(attack: &Attack, arguments: &Arguments, certificates: &Certificates) -> Self {
        let steps = (attack.steps * arguments.percent / 100).max(1);
        let mut costs = Self { rudy: Vec::new(), nginx: Vec::new() };
        for round in 0..arguments.rounds {
            for is_rudy in [round % 2 == 0, round % 2 == 1] {
                if is_rudy {
                    costs.rudy.push(measure(attack, &Target::rudy_for(attack, certificates), steps));
                } else if !attack.is_quic()
                    && let Some(nginx) = Target::nginx(attack.is_tls().then_some(certificates))
                {
                    costs.nginx.push(measure(attack, &nginx, steps));
                }
            }
        }
        costs
    }

    /// Formats the cells of the table after the first.
    fn cells(&self) -> String {
        let [rudy, nginx] = [&self.rudy, &self.nginx].map(|costs| Cells::of(costs));
        let ratios = self.rudy.iter().zip(&self.nginx).map(|(rudy, nginx)| micros(rudy) / micros(nginx));
        let ratio = match &sorted(ratios)[..] {
            [] => String::new(),
            ratios @ [lowest, .., highest] => format!("{:.2} ({lowest:.2} to {highest:.2})", median(ratios)),
            [ratio] => format!("{ratio:.2}"),
        };
        format!(
            " | {} | {} | {ratio} | {} | {} | {} | {} | {} | {} |",
            rudy.cpu, nginx.cpu, rudy.memory, nginx.memory, rudy.end, nginx.end, rudy.others, nginx.others
        )
    }
}

/// The cells of a server.
#[derive(Default)]
struct Cells {
    cpu: String,
    memory: String,
    end: String,
    others: &'static str,
}

impl Cells {
    fn of(costs: &[Cost]) -> Self {
        let Some(last) = costs.last() else { return Self::default() };
        let memory = costs.iter().map(|cost| cost.memory_bytes).max().unwrap_or_default();
        Self {
            cpu: with_unit(median(&sorted(costs.iter().map(micros)))),
            #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
            memory: format!("{:.1} MiB", memory as f64 / f64::from(1 << 20)),
            end: last.end.clone(),
            others: if costs.iter().all(|cost| cost.serves_others) { "yes" } else { "no" },
        }
    }
}

/// Formats microseconds with three digits, or all before the point.
fn with_unit(micros: f64) -> String {
    let decimals = match micros {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{micros:.decimals$} µs")
}

fn micros(cost: &Cost) -> f64 {
    cost.cpu_per_step.as_secs_f64() * 1e6
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the middle one of sorted values.
fn median(values: &[f64]) -> f64 {
    values[values.len() / 2]
}
