-- Its name is the code of the error when an evaluator is deleted that rules use.
alter table run_rules rename constraint run_rules_evaluator_id_evaluators_id_fk to evaluator_in_use;
--> statement-breakpoint
-- What the evaluators of a rule cost, day by day.
create index rule_evaluations_days on rule_evaluations (rule_id, created_at);
