//! The state machine of setup runs: every state with every command, and what no sequence of commands can do
//! (spec 1-domain, *Setup runs*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use domain::{
    limits::RUN_RETRIES_MAX,
    setup_run::{Command, End, Phase, Refusal, RunState, Status},
};
use proptest::prelude::*;

fn state(status: Status, phase: Phase, attempt: u32, driven: bool) -> RunState {
    RunState {
        status,
        phase,
        attempt,
        driven,
        cancel_requested: false,
    }
}

/// The states that occur, named.
fn states() -> Vec<(&'static str, RunState)> {
    use Phase::{Commit, Provision, Setup};
    use Status::{Cancelled, Failed, Provisioning, Running, Succeeded};
    let cancelling = |mut state: RunState| {
        state.cancel_requested = true;
        state
    };
    vec![
        ("queued", RunState::queued()),
        ("provisioning", state(Provisioning, Provision, 1, true)),
        (
            "provisioning, cancelling",
            cancelling(state(Provisioning, Provision, 1, true)),
        ),
        ("running", state(Running, Setup, 1, true)),
        (
            "running, cancelling",
            cancelling(state(Running, Setup, 1, true)),
        ),
        (
            "running, last attempt",
            state(Running, Commit, 1 + RUN_RETRIES_MAX, true),
        ),
        (
            "waiting for its retry",
            state(Provisioning, Provision, 1, false),
        ),
        ("succeeded", state(Succeeded, Phase::Cleanup, 1, false)),
        ("failed", state(Failed, Setup, 1, false)),
        ("cancelled", state(Cancelled, Setup, 1, false)),
    ]
}

fn show(result: &Result<RunState, Refusal>) -> String {
    match result {
        Ok(next) => format!(
            "{} {} {}{}{}",
            next.status,
            next.phase,
            next.attempt,
            if next.driven { " driven" } else { "" },
            if next.cancel_requested {
                " cancelling"
            } else {
                ""
            },
        ),
        Err(Refusal::Finished(_)) => "finished".to_owned(),
        Err(Refusal::Fenced { .. }) => "fenced".to_owned(),
        Err(Refusal::Illegal { .. }) => "illegal".to_owned(),
    }
}

#[test]
fn every_state_with_every_command() {
    let attempt = |state: &RunState| state.attempt;
    type Make = fn(u32) -> Command;
    let commands: [(&str, Make); 9] = [
        ("claim", |_| Command::Claim),
        ("reach gpu_check", |attempt| Command::Reach {
            attempt,
            phase: Phase::GpuCheck,
        }),
        ("reach profile", |attempt| Command::Reach {
            attempt,
            phase: Phase::Profile,
        }),
        ("cancel", |_| Command::RequestCancel),
        ("succeed", |attempt| Command::Finish {
            attempt,
            end: End::Succeeded,
        }),
        ("fail", |attempt| Command::Finish {
            attempt,
            end: End::Failed(Phase::Setup),
        }),
        ("be cancelled", |attempt| Command::Finish {
            attempt,
            end: End::Cancelled,
        }),
        ("lose", |attempt| Command::Lose { attempt }),
        ("give up", |_| Command::GiveUp),
    ];
    let expected = [
        (
            "queued",
            [
                "provisioning provision 1 driven",
                "fenced",
                "fenced",
                "cancelled provision 0 cancelling",
                "fenced",
                "fenced",
                "fenced",
                "fenced",
                "failed provision 0",
            ],
        ),
        (
            "provisioning",
            [
                "illegal",
                "provisioning gpu_check 1 driven",
                "running profile 1 driven",
                "provisioning provision 1 driven cancelling",
                "illegal",
                "failed setup 1",
                "illegal",
                "provisioning provision 1",
                "illegal",
            ],
        ),
        (
            "provisioning, cancelling",
            [
                "illegal",
                "provisioning gpu_check 1 driven cancelling",
                "running profile 1 driven cancelling",
                "provisioning provision 1 driven cancelling",
                "illegal",
                "failed setup 1 cancelling",
                "cancelled provision 1 cancelling",
                "cancelled provision 1 cancelling",
                "illegal",
            ],
        ),
        (
            "running",
            [
                "illegal",
                "illegal",
                "running profile 1 driven",
                "running setup 1 driven cancelling",
                "succeeded setup 1",
                "failed setup 1",
                "illegal",
                "provisioning provision 1",
                "illegal",
            ],
        ),
        (
            "running, cancelling",
            [
                "illegal",
                "illegal",
                "running profile 1 driven cancelling",
                "running setup 1 driven cancelling",
                "succeeded setup 1 cancelling",
                "failed setup 1 cancelling",
                "cancelled setup 1 cancelling",
                "cancelled setup 1 cancelling",
                "illegal",
            ],
        ),
        (
            "running, last attempt",
            [
                "illegal",
                "illegal",
                "illegal",
                "running commit 3 driven cancelling",
                "succeeded commit 3",
                "failed setup 3",
                "illegal",
                "failed commit 3",
                "illegal",
            ],
        ),
        (
            "waiting for its retry",
            [
                "provisioning provision 2 driven",
                "fenced",
                "fenced",
                "cancelled provision 1 cancelling",
                "fenced",
                "fenced",
                "fenced",
                "fenced",
                "failed provision 1",
            ],
        ),
        ("succeeded", ["finished"; 9]),
        ("failed", ["finished"; 9]),
        ("cancelled", ["finished"; 9]),
    ];
    for ((name, state), (row, outcomes)) in states().into_iter().zip(expected) {
        assert_eq!(name, row);
        for ((command, make), outcome) in commands.into_iter().zip(outcomes) {
            let result = state.decide(&make(attempt(&state)));
            assert_eq!(show(&result), outcome, "{name}: {command}");
        }
    }
}

#[test]
fn a_report_of_another_attempt_changes_nothing() {
    let running = state(Status::Running, Phase::Setup, 2, true);
    for reported in [0, 1, 3] {
        for command in [
            Command::Reach {
                attempt: reported,
                phase: Phase::Commit,
            },
            Command::Finish {
                attempt: reported,
                end: End::Succeeded,
            },
            Command::Lose { attempt: reported },
        ] {
            assert_eq!(
                running.decide(&command),
                Err(Refusal::Fenced {
                    reported,
                    current: 2
                })
            );
        }
    }
}

#[test]
fn a_run_is_tried_three_times_in_all() {
    let mut run = RunState::queued();
    for attempt in 1..=1 + RUN_RETRIES_MAX {
        run = run.decide(&Command::Claim).unwrap();
        assert_eq!((run.attempt, run.status), (attempt, Status::Provisioning));
        run = run.decide(&Command::Lose { attempt }).unwrap();
    }
    assert_eq!(run.status, Status::Failed);
}

fn any_command() -> impl Strategy<Value = Command> {
    let attempt = 0..5_u32;
    let phase = (0..Phase::ALL.len()).prop_map(|index| Phase::ALL[index]);
    prop_oneof![
        3 => Just(Command::Claim),
        1 => Just(Command::RequestCancel),
        1 => Just(Command::GiveUp),
        4 => (attempt.clone(), phase.clone()).prop_map(|(attempt, phase)| Command::Reach { attempt, phase }),
        1 => attempt.clone().prop_map(|attempt| Command::Finish { attempt, end: End::Succeeded }),
        1 => (attempt.clone(), phase).prop_map(|(attempt, phase)| Command::Finish { attempt, end: End::Failed(phase) }),
        1 => attempt.clone().prop_map(|attempt| Command::Finish { attempt, end: End::Cancelled }),
        3 => attempt.prop_map(|attempt| Command::Lose { attempt }),
    ]
}

proptest! {
    #[test]
    fn no_sequence_leaves_a_terminal_state_loses_an_attempt_or_makes_another_move(
        commands in prop::collection::vec(any_command(), 0..40)
    ) {
        use Status::{Cancelled, Failed, Provisioning, Queued, Running, Succeeded};
        let mut run = RunState::queued();
        for command in commands {
            let next = match run.decide(&command) {
                Ok(next) => next,
                Err(refusal) => {
                    if run.status.is_terminal() {
                        prop_assert_eq!(refusal, Refusal::Finished(run.status));
                    }
                    continue;
                }
            };
            prop_assert!(!run.status.is_terminal());
            prop_assert!(next.attempt >= run.attempt && next.attempt <= 1 + RUN_RETRIES_MAX);
            prop_assert_eq!(next.attempt > run.attempt, command == Command::Claim);
            prop_assert!(next.cancel_requested >= run.cancel_requested);
            prop_assert!(!(next.driven && next.status.is_terminal()));
            let legal = next.status == run.status || matches!(
                (run.status, next.status),
                (Queued, Provisioning) | (Provisioning, Running) | (Running, Succeeded | Provisioning)
                    | (Queued | Provisioning | Running, Failed | Cancelled)
            );
            prop_assert!(legal, "{:?} to {:?} by {:?}", run, next, command);
            if next.status == Cancelled {
                prop_assert!(next.cancel_requested);
            }
            run = next;
        }
    }
}
