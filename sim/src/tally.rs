//! What the engine counts of itself, and its `/metrics` page.
//!
//! In: tokens and endings as they happen. Out: the page, in vLLM's names. Figures the simulator has no honest value for
//! are not on it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::story::Finish;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    prompt: AtomicU64,
    generated: AtomicU64,
    stopped: AtomicU64,
    cut: AtomicU64,
    aborted: AtomicU64,
    /// Tokens of all requests under way, prompts included.
    held: AtomicU64,
}

/// Tokens the pretended KV cache holds.
const CACHE: u64 = 1 << 18;

impl Tally {
    pub(crate) fn begin(&self, prompt: u64) -> Held<'_> {
        self.prompt.fetch_add(prompt, Relaxed);
        self.held.fetch_add(prompt, Relaxed);
        Held {
            tally: self,
            tokens: prompt,
            finished: false,
        }
    }

    pub(crate) fn page(&self, model: &str, running: usize) -> String {
        let mut page = String::new();
        let model = model
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        let mut family = |kind: &str, name: &str, help: &str, rows: &[(&str, String)]| {
            // Writing to a String cannot fail.
            let _ = writeln!(page, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
            for (more, value) in rows {
                let _ = writeln!(page, "vllm:{name}{{{labels}{more}}} {value}");
            }
        };
        let count = |counter: &AtomicU64| format!("{}.0", counter.load(Relaxed));
        let held = self.held.load(Relaxed).min(CACHE);
        // Both are far below 2^53, so that nothing is lost.
        #[expect(clippy::cast_precision_loss, reason = "both are at most 2^18")]
        let usage = held as f64 / CACHE as f64;
        family(
            "gauge",
            "num_requests_running",
            "Number of requests in model execution batches.",
            &[("", format!("{running}.0"))],
        );
        family(
            "gauge",
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            &[("", "0.0".into())],
        );
        family(
            "gauge",
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            &[("", format!("{usage:?}"))],
        );
        family(
            "counter",
            "prompt_tokens_total",
            "Number of prefill tokens processed.",
            &[("", count(&self.prompt))],
        );
        family(
            "counter",
            "generation_tokens_total",
            "Number of generation tokens processed.",
            &[("", count(&self.generated))],
        );
        let reasons = [
            (",finished_reason=\"stop\"", count(&self.stopped)),
            (",finished_reason=\"length\"", count(&self.cut)),
            (",finished_reason=\"abort\"", count(&self.aborted)),
        ];
        family(
            "counter",
            "request_success_total",
            "Count of successfully processed requests.",
            &reasons,
        );
        page
    }
}

/// A request under way: the tokens it holds in the cache, until dropped.
pub(crate) struct Held<'a> {
    tally: &'a Tally,
    tokens: u64,
    finished: bool,
}

impl Held<'_> {
    pub(crate) fn generated(&mut self, tokens: u64, finish: Option<Finish>) {
        self.tokens += tokens;
        self.tally.generated.fetch_add(tokens, Relaxed);
        self.tally.held.fetch_add(tokens, Relaxed);
        match finish {
            None => {}
            Some(Finish::Stop) => drop(self.tally.stopped.fetch_add(1, Relaxed)),
            Some(Finish::Length) => drop(self.tally.cut.fetch_add(1, Relaxed)),
        }
        self.finished |= finish.is_some();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.tally.held.fetch_sub(self.tokens, Relaxed);
        if !self.finished {
            self.tally.aborted.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_its_tokens_while_it_runs_and_is_counted_by_its_end() {
        let tally = Tally::default();
        let mut held = tally.begin(100);
        held.generated(28, Some(Finish::Length));
        let page = tally.page("ti\"ny", 1);
        assert!(
            page.contains(
                "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"ti\\\"ny\"} 0.00048828125\n"
            ),
            "{page}"
        );
        drop(held);
        drop(tally.begin(5));
        let page = tally.page("m", 0);
        for line in [
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.0",
            "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 105.0",
            "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 28.0",
            "vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"length\"} 1.0",
            "vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"abort\"} 1.0",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
