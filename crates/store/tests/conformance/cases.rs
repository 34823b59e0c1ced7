//! The list of cases. One that is missing here does not compile without a warning of dead code.

macro_rules! suite {
    ($open:ident) => {
        conformance::suite! { $open =>
            members {
                the_first_organization_is_made_once,
                racing_first_organizations_make_one,
                members_are_found_by_address_and_id,
                an_address_is_taken_until_its_member_is_removed,
                an_organization_keeps_an_admin,
                racing_demotions_leave_an_admin,
                an_update_of_an_older_epoch_is_stale,
                an_update_of_a_member_that_changed_in_anything_is_stale,
                an_invitation_is_accepted_once_and_in_time,
                invitations_are_listed_until_closed,
                api_keys_live_until_revoked,
                what_another_pool_changes_of_a_key_or_its_owner_counts_at_once,
                a_foreign_key_names_itself,
                a_member_that_cannot_be_read_is_named,
            }
            access {
                the_database_answers,
                web_sessions_expire,
                settings_are_set_and_removed,
                a_key_is_claimed_replayed_and_refused,
                racing_claims_of_a_key_have_one_winner,
                receipts_and_claims_age,
                a_receipt_is_written_with_its_effect_or_not_at_all,
                an_effect_without_its_claim_is_undone,
                text_with_a_null_character_is_no_failure,
                audit_entries_are_paged_newest_first,
                audit_entries_are_chosen_by_what_is_asked,
            }
            environments {
                an_environment_comes_back_as_it_was,
                environments_are_listed_newest_first,
                a_lost_race_changes_nothing,
                forty_writers_lose_no_update,
                a_deleted_environment_is_gone_but_its_runs_are_not,
                a_stale_run_undoes_the_deletion,
                removing_rows_removes_what_hangs_on_them,
                an_unreadable_definition_is_named_without_its_text,
                another_organizations_environment_is_not_there,
                environments_ring,
                environments_with_an_image_are_found_in_every_organization,
                abandoned_calls_hold_no_lock_and_lose_no_connection,
                secrets_change_together_with_their_environment,
                what_another_pool_changes_of_an_environment_is_read_next,
            }
            runs {
                a_run_comes_back_as_it_was,
                one_run_is_in_flight_per_environment,
                racing_admissions_have_one_winner,
                manual_runs_have_a_limit,
                racing_admissions_keep_the_limit,
                an_admission_on_an_older_version_is_stale,
                runs_are_listed_newest_first,
                the_oldest_waiting_run_is_offered,
                racing_claims_have_one_winner,
                a_run_and_its_environment_change_together,
                a_worker_keeps_its_id_by_name,
                a_run_with_an_unknown_word_is_named,
                runs_ring,
                bells_ring_after_the_commit_only,
            }
            sessions {
                a_session_comes_back_as_it_was,
                a_session_of_a_changed_or_deleted_environment_is_not_admitted,
                live_sessions_have_a_limit,
                racing_admissions_of_sessions_keep_the_limit,
                sessions_are_listed_newest_first_without_deleted_ones,
                layers_are_needed_until_a_session_is_deleted,
                another_organizations_session_is_not_there,
                sessions_ring,
                a_session_with_an_unknown_wish_is_named,
            }
            logs {
                lines_are_counted_and_paged,
                a_repeated_batch_changes_nothing,
                an_open_line_grows_in_place,
                a_late_repeat_does_not_shorten_a_line,
                a_batch_with_news_may_shorten_the_open_line,
                lines_of_ours_between_a_workers_lose_nothing,
                the_attempt_that_lost_the_run_is_fenced,
                a_new_attempt_goes_on_after_the_old_lines,
                nothing_is_appended_after_the_end_but_our_own_lines,
                truncation_is_remembered,
                a_page_may_cut_through_batches,
                racing_appends_keep_every_line,
                an_open_line_is_known_until_it_is_whole,
                old_logs_are_removed_and_say_so,
                an_unreadable_batch_is_named,
                appending_does_not_spoil_a_compare_and_set,
            }
            records {
                hosts_come_back_in_order_of_first_attempt,
                a_repeated_report_changes_nothing_and_the_larger_count_counts,
                records_of_an_attempt_that_lost_the_run_are_fenced,
                ten_thousand_hosts_of_the_longest_name_are_kept_quickly_and_no_more,
                a_host_that_comes_twice_in_a_report_is_one_record,
                racing_reports_keep_every_host,
                records_go_with_the_log,
                an_unreadable_record_is_named,
            }
        }
    };
    ($open:ident => $($module:ident { $($case:ident,)* })*) => {$(
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::conformance::$module::$case(&crate::common::Bed::$open().await).await;
                }
            )*
        }
    )*};
}
pub(crate) use suite;
