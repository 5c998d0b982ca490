CREATE TABLE "channels" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"name" text NOT NULL,
	"kind" text NOT NULL,
	"member_id" uuid,
	"run_rule_id" uuid,
	"config" jsonb NOT NULL,
	"credentials" text NOT NULL,
	"deploys" text DEFAULT 'none' NOT NULL,
	"is_default" boolean DEFAULT false NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"confirmed_at" timestamp with time zone DEFAULT clock(),
	"confirmation_hash" text,
	"confirmation_expires_at" timestamp with time zone,
	"unsubscribe_hash" text,
	"position" bigint DEFAULT 0 NOT NULL,
	"failing_since" timestamp with time zone,
	"disabled_reason" text,
	"disabled_at" timestamp with time zone,
	"throttled" integer DEFAULT 0 NOT NULL,
	"next_send_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"attempted_at" timestamp with time zone,
	"last_error" text,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "channels_confirmation" UNIQUE("confirmation_hash"),
	CONSTRAINT "channels_unsubscribe" UNIQUE("unsubscribe_hash"),
	CONSTRAINT "channel_name_taken" UNIQUE NULLS NOT DISTINCT("tenant_id","member_id","run_rule_id","name")
);
--> statement-breakpoint
CREATE TABLE "mail_windows" (
	"scope" text PRIMARY KEY NOT NULL,
	"started_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"mails" integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE "notices" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"channel_id" uuid NOT NULL,
	"thread" text NOT NULL,
	"sequence" bigint NOT NULL,
	"phase" text NOT NULL,
	"content" jsonb NOT NULL,
	"state" text DEFAULT 'waiting' NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp with time zone DEFAULT clock(),
	"attempted_at" timestamp with time zone,
	"remote" jsonb,
	"answer_status" integer,
	"duration_ms" integer,
	"error" text,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "notices_once" UNIQUE("channel_id","thread","sequence")
);
--> statement-breakpoint
CREATE TABLE "alert_mutes" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"reason" text NOT NULL,
	"rule_ids" uuid[] DEFAULT '{}' NOT NULL,
	"deployment_ids" uuid[] DEFAULT '{}' NOT NULL,
	"tag_value_ids" uuid[] DEFAULT '{}' NOT NULL,
	"starts_at" timestamp with time zone,
	"ends_at" timestamp with time zone,
	"weekly" jsonb,
	"created_by_name" text DEFAULT event_actor_name(),
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "alert_rules" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"name" text NOT NULL,
	"built_in" text,
	"enabled" boolean DEFAULT true NOT NULL,
	"kind" text NOT NULL,
	"condition" jsonb NOT NULL,
	"deployment_ids" uuid[] DEFAULT '{}' NOT NULL,
	"tag_value_ids" uuid[] DEFAULT '{}' NOT NULL,
	"project_id" uuid,
	"for_seconds" integer NOT NULL,
	"resolve_after_seconds" integer NOT NULL,
	"severity" text NOT NULL,
	"channel_ids" uuid[] DEFAULT '{}' NOT NULL,
	"next_look_at" timestamp with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "alert_rule_name_taken" UNIQUE("tenant_id","name")
);
--> statement-breakpoint
CREATE TABLE "alert_settings" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"defaults_enabled" boolean DEFAULT true NOT NULL,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "alert_settings_one" UNIQUE("tenant_id")
);
--> statement-breakpoint
CREATE TABLE "alert_signals" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"rule_id" uuid NOT NULL,
	"subject_id" uuid NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"count" integer NOT NULL,
	"cause" text,
	"lines" text[] DEFAULT '{}' NOT NULL,
	CONSTRAINT "alert_signals_rule_id_subject_id_at_pk" PRIMARY KEY("rule_id","subject_id","at")
);
--> statement-breakpoint
CREATE TABLE "alert_states" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"rule_id" uuid NOT NULL,
	"subject_id" uuid NOT NULL,
	"subject_type" text NOT NULL,
	"phase" text DEFAULT 'ok' NOT NULL,
	"since" timestamp with time zone,
	"relapses" integer DEFAULT 0 NOT NULL,
	"sampled_at" timestamp with time zone,
	"due_at" timestamp with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "alert_states_rule_id_subject_id_pk" PRIMARY KEY("rule_id","subject_id")
);
--> statement-breakpoint
CREATE TABLE "incident_changes" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"incident_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"value" double precision,
	"message" text,
	"actor_id" uuid DEFAULT current_actor(),
	"actor_name" text DEFAULT event_actor_name(),
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "incidents" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"rule_id" uuid,
	"run_rule_id" uuid,
	"rule_name" text NOT NULL,
	"subject_type" text NOT NULL,
	"subject_id" uuid NOT NULL,
	"subject_name" text NOT NULL,
	"deployment_id" uuid,
	"project_id" uuid,
	"severity" text NOT NULL,
	"title" text NOT NULL,
	"cause" text NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"value" double precision,
	"evidence" jsonb NOT NULL,
	"channel_ids" uuid[] NOT NULL,
	"reopened" integer DEFAULT 0 NOT NULL,
	"muted_until" timestamp with time zone,
	"tell_at" timestamp with time zone,
	"is_told" boolean DEFAULT false NOT NULL,
	"sequence" integer DEFAULT 0 NOT NULL,
	"opened_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"last_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"resolved_at" timestamp with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "drain_states" (
	"drain_id" uuid NOT NULL,
	"listener_id" uuid NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"epoch" uuid NOT NULL,
	"epoch_sent" bigint DEFAULT 0 NOT NULL,
	"epoch_dropped" bigint DEFAULT 0 NOT NULL,
	"waiting" bigint DEFAULT 0 NOT NULL,
	"waiting_bytes" bigint DEFAULT 0 NOT NULL,
	"sent" bigint DEFAULT 0 NOT NULL,
	"dropped" bigint DEFAULT 0 NOT NULL,
	"last_sent_at" timestamp with time zone,
	"failing_since" timestamp with time zone,
	"error" text,
	"reported_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "drain_states_drain_id_listener_id_pk" PRIMARY KEY("drain_id","listener_id")
);
--> statement-breakpoint
CREATE TABLE "drains" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"name" text NOT NULL,
	"kind" text NOT NULL,
	"url" text NOT NULL,
	"compression" text NOT NULL,
	"header_names" text[] NOT NULL,
	"headers" text,
	"signals" text[] NOT NULL,
	"deployment_ids" uuid[] NOT NULL,
	"tag_value_ids" uuid[] NOT NULL,
	"min_level" text,
	"processes" text[] NOT NULL,
	"contains" text,
	"sampling_rate" double precision NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"position" bigint DEFAULT 0 NOT NULL,
	"trace_position" bigint DEFAULT 0 NOT NULL,
	"next_send_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"failures" integer DEFAULT 0 NOT NULL,
	"sent" bigint DEFAULT 0 NOT NULL,
	"dropped" bigint DEFAULT 0 NOT NULL,
	"last_sent_at" timestamp with time zone,
	"failing_since" timestamp with time zone,
	"error" text,
	"owner" text,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "drains_kind" CHECK ("drains"."kind" in ('otlp', 'ndjson', 'loki', 'syslog'))
);
--> statement-breakpoint
CREATE TABLE "log_archive_settings" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid,
	"enabled" boolean,
	"retention_days" integer,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "log_archive_settings_one" UNIQUE NULLS NOT DISTINCT("tenant_id","deployment_id")
);
--> statement-breakpoint
CREATE TABLE "log_archives" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid,
	"hour" timestamp with time zone NOT NULL,
	"object_path" text NOT NULL,
	"lines" integer NOT NULL,
	"bytes" bigint NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"expires_at" timestamp with time zone NOT NULL,
	CONSTRAINT "log_archives_path" UNIQUE("object_path")
);
--> statement-breakpoint
CREATE TABLE "log_batches" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"revision_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"number" integer NOT NULL,
	"skipped" integer NOT NULL,
	"lines" integer NOT NULL,
	"bytes" integer NOT NULL,
	"content" text NOT NULL,
	"for_store" boolean NOT NULL,
	"for_archive" boolean NOT NULL,
	"received_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"claimed_until" timestamp with time zone,
	"attempts" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "log_losses" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"revision_id" uuid NOT NULL,
	"hour" timestamp with time zone NOT NULL,
	"lines" bigint NOT NULL,
	CONSTRAINT "log_losses_revision_id_hour_pk" PRIMARY KEY("revision_id","hour")
);
--> statement-breakpoint
ALTER TABLE "model_budgets" ADD COLUMN "told_percent" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "custom_hosts" ADD COLUMN "certificate_failed_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "custom_hosts" ADD COLUMN "unreachable_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "request_logs" json;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "unreachable_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "log_lines" ADD COLUMN "attributes" jsonb;--> statement-breakpoint
ALTER TABLE "log_lines" ADD COLUMN "request_id" text;--> statement-breakpoint
ALTER TABLE "log_lines" ADD COLUMN "trace_id" text;--> statement-breakpoint
ALTER TABLE "channels" ADD CONSTRAINT "channels_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id")
  REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "channels" ADD CONSTRAINT "channels_member_id_members_id_fk" FOREIGN KEY ("member_id")
  REFERENCES "public"."members"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "channels" ADD CONSTRAINT "channels_run_rule_id_run_rules_id_fk" FOREIGN KEY ("run_rule_id")
  REFERENCES "public"."run_rules"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notices" ADD CONSTRAINT "notices_channel_id_channels_id_fk" FOREIGN KEY ("channel_id")
  REFERENCES "public"."channels"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "alert_mutes" ADD CONSTRAINT "alert_mutes_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id")
  REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "alert_rules" ADD CONSTRAINT "alert_rules_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id")
  REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "alert_rules" ADD CONSTRAINT "alert_rules_project_id_projects_id_fk" FOREIGN KEY ("project_id")
  REFERENCES "public"."projects"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "alert_settings" ADD CONSTRAINT "alert_settings_tenant_id_workspaces_id_fk" FOREIGN KEY
  ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "alert_signals" ADD CONSTRAINT "alert_signals_rule_id_alert_rules_id_fk" FOREIGN KEY
  ("rule_id") REFERENCES "public"."alert_rules"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "alert_states" ADD CONSTRAINT "alert_states_rule_id_alert_rules_id_fk" FOREIGN KEY ("rule_id")
  REFERENCES "public"."alert_rules"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "incident_changes" ADD CONSTRAINT "incident_changes_incident_id_incidents_id_fk" FOREIGN KEY
  ("incident_id") REFERENCES "public"."incidents"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "incidents" ADD CONSTRAINT "incidents_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id")
  REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "incidents" ADD CONSTRAINT "incidents_rule_id_alert_rules_id_fk" FOREIGN KEY ("rule_id")
  REFERENCES "public"."alert_rules"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "incidents" ADD CONSTRAINT "incidents_run_rule_id_run_rules_id_fk" FOREIGN KEY ("run_rule_id")
  REFERENCES "public"."run_rules"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "incidents" ADD CONSTRAINT "incidents_deployment_id_deployments_id_fk" FOREIGN KEY
  ("deployment_id")
  REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "incidents" ADD CONSTRAINT "incidents_project_id_projects_id_fk" FOREIGN KEY ("project_id")
  REFERENCES "public"."projects"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "drain_states" ADD CONSTRAINT "drain_states_drain_id_drains_id_fk" FOREIGN KEY ("drain_id")
  REFERENCES "public"."drains"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "drain_states" ADD CONSTRAINT "drain_states_listener_id_listeners_id_fk" FOREIGN KEY
  ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "drains" ADD CONSTRAINT "drains_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id")
  REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_archive_settings" ADD CONSTRAINT "log_archive_settings_tenant_id_workspaces_id_fk" FOREIGN KEY
  ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_archive_settings" ADD CONSTRAINT "log_archive_settings_deployment_id_deployments_id_fk" FOREIGN KEY
  ("deployment_id")
  REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_archives" ADD CONSTRAINT "log_archives_deployment_id_deployments_id_fk" FOREIGN KEY
  ("deployment_id")
  REFERENCES "public"."deployments"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_batches" ADD CONSTRAINT "log_batches_revision_id_revisions_id_fk" FOREIGN KEY
  ("revision_id") REFERENCES "public"."revisions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_losses" ADD CONSTRAINT "log_losses_revision_id_revisions_id_fk" FOREIGN KEY
  ("revision_id") REFERENCES "public"."revisions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "channels_page" ON "channels" USING btree
  ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "channels_member" ON "channels" USING btree ("member_id");--> statement-breakpoint
CREATE INDEX "channels_run_rule" ON "channels" USING btree ("run_rule_id");--> statement-breakpoint
CREATE INDEX "mail_windows_age" ON "mail_windows" USING btree ("started_at");--> statement-breakpoint
CREATE INDEX "notices_due" ON "notices" USING btree ("channel_id","next_attempt_at")
  WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX "notices_page" ON "notices" USING btree
  ("channel_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "notices_age" ON "notices" USING brin ("created_at");--> statement-breakpoint
CREATE INDEX "alert_mutes_page" ON "alert_mutes" USING btree
  ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "alert_mutes_ended" ON "alert_mutes" USING btree ("ends_at")
  WHERE ends_at is not null;--> statement-breakpoint
CREATE INDEX "alert_rules_page" ON "alert_rules" USING btree
  ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "alert_rules_kind" ON "alert_rules" USING btree ("tenant_id","kind") WHERE enabled;--> statement-breakpoint
CREATE INDEX "alert_rules_project" ON "alert_rules" USING btree ("project_id")
  WHERE project_id is not null;--> statement-breakpoint
CREATE INDEX "alert_rules_look" ON "alert_rules" USING btree ("next_look_at")
  WHERE enabled and next_look_at is not null;--> statement-breakpoint
CREATE INDEX "alert_signals_age" ON "alert_signals" USING brin ("at");--> statement-breakpoint
CREATE INDEX "alert_states_due" ON "alert_states" USING btree ("due_at")
  WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "alert_states_subject" ON "alert_states" USING btree ("subject_id");--> statement-breakpoint
CREATE INDEX "incident_changes_incident" ON "incident_changes" USING btree
  ("incident_id","created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "incidents_open" ON "incidents" USING btree ("rule_id","subject_id")
  WHERE state <> 'resolved';--> statement-breakpoint
CREATE UNIQUE INDEX "incidents_open_run_rule" ON "incidents" USING btree ("run_rule_id")
  WHERE state <> 'resolved';--> statement-breakpoint
CREATE INDEX "incidents_rule" ON "incidents" USING btree ("rule_id","subject_id","resolved_at");--> statement-breakpoint
CREATE INDEX "incidents_run_rule" ON "incidents" USING btree ("run_rule_id");--> statement-breakpoint
CREATE INDEX "incidents_page" ON "incidents" USING btree
  ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "incidents_deployment" ON "incidents" USING btree ("deployment_id");--> statement-breakpoint
CREATE INDEX "incidents_project" ON "incidents" USING btree ("project_id");--> statement-breakpoint
CREATE INDEX "incidents_tell" ON "incidents" USING btree ("tell_at") WHERE tell_at is not null;--> statement-breakpoint
CREATE INDEX "incidents_age" ON "incidents" USING btree ("resolved_at")
  WHERE state = 'resolved';--> statement-breakpoint
CREATE INDEX "drain_states_listener" ON "drain_states" USING btree ("listener_id");--> statement-breakpoint
CREATE UNIQUE INDEX "drain_name_taken" ON "drains" USING btree ("tenant_id",lower(name));--> statement-breakpoint
CREATE INDEX "drains_page" ON "drains" USING btree
  ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "drains_due" ON "drains" USING btree ("next_send_at")
  WHERE enabled and signals && '{events,traces}';--> statement-breakpoint
CREATE INDEX "log_archive_settings_deployment" ON "log_archive_settings" USING btree
  ("deployment_id");--> statement-breakpoint
CREATE INDEX "log_archives_newest" ON "log_archives" USING btree
  ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "log_archives_expiry" ON "log_archives" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "log_archives_workspace" ON "log_archives" USING btree ("tenant_id");--> statement-breakpoint
CREATE INDEX "log_batches_of_deployment" ON "log_batches" USING btree
  ("deployment_id","received_at");--> statement-breakpoint
CREATE INDEX "log_batches_for_store" ON "log_batches" USING btree ("received_at")
  WHERE "log_batches"."for_store";--> statement-breakpoint
CREATE INDEX "log_batches_for_archive" ON "log_batches" USING btree ("deployment_id","received_at")
  WHERE "log_batches"."for_archive";--> statement-breakpoint
CREATE INDEX "log_batches_revision" ON "log_batches" USING btree ("revision_id");--> statement-breakpoint
CREATE INDEX "log_losses_hour" ON "log_losses" USING btree ("deployment_id","hour");--> statement-breakpoint
CREATE INDEX "log_lines_of_workspace" ON "log_lines" USING btree
  ("tenant_id","kind","timestamp","revision_id","number");--> statement-breakpoint
CREATE INDEX "log_lines_of_request" ON "log_lines" USING btree ("tenant_id","request_id","timestamp")
  WHERE "log_lines"."request_id" is not null;--> statement-breakpoint
CREATE INDEX "log_lines_of_trace" ON "log_lines" USING btree ("tenant_id","trace_id","timestamp")
  WHERE "log_lines"."trace_id" is not null;--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on custom_hosts from slipway_agent;
revoke all on deployments from slipway_app;
revoke all on log_lines from slipway_agent;
revoke all on log_lines from slipway_app;
set local role slipway_system;
create or replace function check_alert_mute_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from alert_rules r where r.id = any(new.rule_ids) and r.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a mute refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids, tag_value_ids,
  rule_ids ON public.alert_mutes FOR EACH ROW EXECUTE FUNCTION check_alert_mute_references();
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.alert_mutes REFERENCING NEW TABLE AS added FOR EACH STATEMENT
  EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'alert_mutes');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
alter table alert_mutes enable row level security, force row level security;
create policy everything on alert_mutes to slipway_system
  using (true)
  with check (true);
create policy own on alert_mutes to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (version, updated_at) on alert_mutes to slipway_app;
grant delete, insert, select, update on alert_mutes to slipway_system;
set local role slipway_system;
create or replace function check_alert_rule_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from channels c where c.id = any(new.channel_ids) and c.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'an alert rule refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids, tag_value_ids,
  channel_ids ON public.alert_rules FOR EACH ROW EXECUTE FUNCTION check_alert_rule_references();
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.alert_rules REFERENCING NEW TABLE AS added FOR EACH STATEMENT
  EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'alert_rules');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
set local role slipway_system;
create or replace function look_at_changed_rule()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update alert_states set due_at = clock(), version = version + 1 where rule_id = new.id;
  return null;
end $function$;
reset role;
CREATE TRIGGER look_at_changed_rule AFTER UPDATE OF enabled, condition, deployment_ids,
  tag_value_ids ON public.alert_rules FOR EACH ROW EXECUTE FUNCTION look_at_changed_rule();
alter table alert_rules enable row level security, force row level security;
create policy admitted on alert_rules as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (project_id IS NULL) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = alert_rules.project_id)))));
create policy everything on alert_rules to slipway_system
  using (true)
  with check (true);
create policy own on alert_rules to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
  AND is_own_project(project_id)));
grant delete, insert, select, update (name, enabled, kind, condition, deployment_ids, tag_value_ids, project_id,
  for_seconds, resolve_after_seconds, severity, channel_ids, next_look_at, version, created_at,
  updated_at) on alert_rules to slipway_app;
grant delete, insert, select, update on alert_rules to slipway_system;
alter table alert_settings enable row level security, force row level security;
create policy everything on alert_settings to slipway_system
  using (true)
  with check (true);
create policy own on alert_settings to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant insert, select, update (defaults_enabled, version, created_at, updated_at) on alert_settings to slipway_app;
grant delete, insert, select, update on alert_settings to slipway_system;
alter table alert_signals enable row level security, force row level security;
create policy everything on alert_signals to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on alert_signals to slipway_system;
alter table alert_states enable row level security, force row level security;
create policy everything on alert_states to slipway_system
  using (true)
  with check (true);
create policy own on alert_states to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select, update (phase, since, relapses, sampled_at, due_at, version) on alert_states to slipway_app;
grant delete, insert, select, update on alert_states to slipway_system;
set local role slipway_system;
create or replace function check_channel_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from run_rules r where r.id = new.run_rule_id and r.tenant_id <> new.tenant_id)
    or exists (select from members m where m.id = new.member_id and m.organization_id <> new.organization_id)
  then
    raise exception using errcode = '42501', message = 'a channel refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF run_rule_id,
  member_id ON public.channels FOR EACH ROW EXECUTE FUNCTION check_channel_references();
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.channels REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE
  FUNCTION enforce_quota('tenant_id', '200', 'true', 'channels');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
alter table channels enable row level security, force row level security;
create policy everything on channels to slipway_system
  using (true)
  with check (true);
set local role slipway_system;
create or replace function actor_member()
 RETURNS uuid
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select case
    when setting('actor_kind') = 'session' then current_actor()
    else (select a.member_id from api_keys a where a.id = current_actor())
  end
$function$;
reset role;
create policy own on channels to slipway_app
  using (((tenant_id = current_tenant()) AND ((member_id IS NULL) OR (member_id =
  ( SELECT actor_member() AS actor_member)))))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND
  ((member_id IS NULL) OR (member_id = ( SELECT actor_member() AS actor_member))) AND is_own_rule(run_rule_id)));
create policy served on channels for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = channels.tenant_id) AND (d.listener_id = current_listener())))));
grant select (tenant_id, deploys, enabled) on channels to slipway_agent;
grant delete, insert, select, update (name, config, credentials, deploys, is_default, enabled, confirmed_at,
  confirmation_hash, confirmation_expires_at, unsubscribe_hash, "position", failing_since, disabled_reason,
  disabled_at, throttled, next_send_at, attempted_at, last_error, version, created_at,
  updated_at) on channels to slipway_app;
grant delete, insert, select, update on channels to slipway_system;
create policy reported on custom_hosts for update to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.custom_host = custom_hosts.host) AND (d.tenant_id = custom_hosts.tenant_id) AND
  (d.listener_id = current_listener())))));
grant select, update (certificate_failed_at, unreachable_since) on custom_hosts to slipway_agent;
create or replace function follow_health()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_changes json;
begin
  new.health := deployment_health(new);
  if tg_op = 'UPDATE' then
    if new.active_revision_id is not distinct from old.active_revision_id then
      v_changes := old.health_changes;
    end if;
    new.health_changes := v_changes;
  end if;
  if tg_op = 'UPDATE' and new.health is not distinct from old.health then return new; end if;
  new.health_since := clock();
  -- To fall asleep and to wake is no fault, however often.
  if tg_op = 'UPDATE' and old.health in ('healthy', 'sleeping') and new.health in ('healthy', 'sleeping') then
    return new;
  end if;
  new.health_changes := (
    select json_agg(at order by place)
    from (
      select at, row_number() over () as place
      from (
        select clock()::text as at
        union all
        select json_array_elements_text(v_changes)
      ) changes
      limit 6
    ) latest
  );
  return new;
end $function$;
set local role slipway_system;
create or replace function look_at_deleted_deployment()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update alert_states set due_at = clock(), version = version + 1 where subject_id = new.id;
  return null;
end $function$;
reset role;
CREATE TRIGGER look_at_deleted_deployment AFTER UPDATE OF deleting_at ON public.deployments FOR EACH ROW WHEN
  (((old.deleting_at IS NULL) AND (new.deleting_at IS NOT NULL))) EXECUTE FUNCTION look_at_deleted_deployment();
set local role slipway_system;
create or replace function signal_health()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_incident record;
begin
  if new.health is distinct from old.health and new.health is not null then
    perform signal_alert_rules(
      new.tenant_id, 'deployment.' || new.health, new.id,
      json_strip_nulls(json_build_object('message', new.health_reason)), clock()
    );
  end if;
  for v_incident in
    select k.kind, k.message
    from json_to_recordset(new.incidents) as k(kind text, pending integer, message text)
    left join json_to_recordset(old.incidents) as b(kind text, pending integer) on b.kind = k.kind
    where k.pending > coalesce(b.pending, 0)
  loop
    perform signal_alert_rules(
      new.tenant_id, 'deployment.' || v_incident.kind, new.id,
      json_strip_nulls(json_build_object('message', v_incident.message)), clock()
    );
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER signal_health AFTER UPDATE ON public.deployments FOR EACH ROW WHEN
  (((new.health IS DISTINCT FROM old.health) OR ((new.incidents)::text IS DISTINCT FROM
  (old.incidents)::text))) EXECUTE FUNCTION signal_health();
grant delete, insert, select, update (name, name_fold, source, deployment_type, status, image_version, tag_value_ids,
  source_config, source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled,
  revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview,
  repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
  updated_at, trace_key_version, owner, reported_health, health_reason, incidents, incidents_due, dormant_parts,
  health_processes, local_url, protection, traffic, applied_traffic, rollout, rollout_secret, rollout_due_at,
  request_logs) on deployments to slipway_app;
alter table drain_states enable row level security, force row level security;
create policy everything on drain_states to slipway_system
  using (true)
  with check (true);
create policy own on drain_states for select to slipway_app
  using ((tenant_id = current_tenant()));
grant select on drain_states to slipway_app;
grant delete, insert, select, update on drain_states to slipway_system;
set local role slipway_system;
create or replace function check_drain_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a drain refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids,
  tag_value_ids ON public.drains FOR EACH ROW EXECUTE FUNCTION check_drain_references();
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.drains REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE
  FUNCTION enforce_quota('tenant_id', '20', 'true', 'drains');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
alter table drains enable row level security, force row level security;
create policy everything on drains to slipway_system
  using (true)
  with check (true);
create policy own on drains to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (name, url, compression, header_names, headers, signals, deployment_ids,
  tag_value_ids, min_level, processes, contains, sampling_rate, enabled, "position", trace_position, next_send_at,
  failures, sent, dropped, last_sent_at, failing_since, error, owner, version, created_at,
  updated_at) on drains to slipway_app;
grant delete, insert, select, update on drains to slipway_system;
set local role slipway_system;
create or replace function signal_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform signal_alert_rules(
    new.tenant_id, new.type, new.subject_id, new.data, new.created_at + new.seq % 1000 * interval '1 microsecond'
  );
  return null;
end $function$;
reset role;
CREATE TRIGGER signal_event AFTER INSERT ON public.events FOR EACH ROW WHEN (((new.tenant_id IS NOT NULL) AND
  (new.type !~~ 'incident.%'::text) AND (new.type !~~ 'alert%'::text))) EXECUTE FUNCTION signal_event();
alter table incident_changes enable row level security, force row level security;
create policy admitted on incident_changes as restrictive to slipway_limited
  using ((EXISTS ( SELECT
   FROM incidents i
  WHERE (i.id = incident_changes.incident_id))))
  with check (true);
create policy everything on incident_changes to slipway_system
  using (true)
  with check (true);
create policy own on incident_changes to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
  AND is_own_key(actor_id) AND (EXISTS ( SELECT
   FROM incidents i
  WHERE ((i.id = incident_changes.incident_id) AND (i.tenant_id = current_tenant()))))));
grant insert, select on incident_changes to slipway_app;
grant delete, insert, select, update on incident_changes to slipway_system;
alter table incidents enable row level security, force row level security;
create policy admitted on incidents as restrictive to slipway_limited
  using ((((NOT ( SELECT hides('deployment'::text) AS hides)) OR (deployment_id IS NULL) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.id = incidents.deployment_id)))) AND ((NOT ( SELECT hides('project'::text) AS hides)) OR
  (project_id IS NULL) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = incidents.project_id))))));
create policy everything on incidents to slipway_system
  using (true)
  with check (true);
create policy own on incidents to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
  AND is_own_deployment(deployment_id) AND is_own_project(project_id) AND is_own_rule(run_rule_id)));
grant select, update (severity, cause, state, value, evidence, reopened, muted_until, tell_at, is_told, sequence,
  last_at, resolved_at, version, created_at, updated_at) on incidents to slipway_app;
grant delete, insert, select, update on incidents to slipway_system;
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.log_archive_settings REFERENCING NEW TABLE AS added FOR EACH
  STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10001', 'true', 'log_archive_settings');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
alter table log_archive_settings enable row level security, force row level security;
create policy admitted on log_archive_settings as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (deployment_id IS NULL) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_archive_settings.deployment_id)))))
  with check (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_archive_settings.deployment_id)))));
create policy everything on log_archive_settings to slipway_system
  using (true)
  with check (true);
create policy own on log_archive_settings to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
  AND is_own_deployment(deployment_id)));
create policy served on log_archive_settings for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = log_archive_settings.tenant_id) AND (d.listener_id = current_listener())))));
grant select on log_archive_settings to slipway_agent;
grant insert, select, update (enabled, retention_days, updated_at) on log_archive_settings to slipway_app;
grant delete, insert, select, update on log_archive_settings to slipway_system;
alter table log_archives enable row level security, force row level security;
create policy admitted on log_archives as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_archives.deployment_id)))))
  with check (true);
create policy everything on log_archives to slipway_system
  using (true)
  with check (true);
create policy own on log_archives for select to slipway_app
  using ((tenant_id = current_tenant()));
grant select on log_archives to slipway_app;
grant delete, insert, select, update on log_archives to slipway_system;
alter table log_batches enable row level security, force row level security;
create policy everything on log_batches to slipway_system
  using (true)
  with check (true);
create policy served on log_batches to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = log_batches.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = log_batches.revision_id) AND (d.id = log_batches.deployment_id) AND
  (d.listener_id = current_listener()) AND (d.tenant_id = log_batches.tenant_id) AND
  (d.organization_id = log_batches.organization_id)))));
grant insert, select on log_batches to slipway_agent;
grant delete, insert, select, update on log_batches to slipway_system;
set local role slipway_system;
create or replace function signal_log_lines()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  r alert_rules;
  v_tenant uuid := (select a.tenant_id from added a limit 1);
  v_deployment uuid := (select a.deployment_id from added a limit 1);
  v_tags uuid[];
  v_messages text[];
  v_lowered text[];
  v_severities integer[];
  v_processes text[];
  v_count integer;
  v_lines text[];
begin
  for r in
    select a.*
    from alert_rules a
    where a.tenant_id = v_tenant and a.kind = 'log' and a.enabled
    order by a.id
  loop
    if v_messages is null then
      v_tags := (select d.tag_value_ids from deployments d where d.id = v_deployment);
      select
        coalesce(array_agg(left(a.message, 1000) order by a.number desc), '{}'),
        array_agg(lower(a.message) order by a.number desc),
        array_agg(a.severity::integer order by a.number desc),
        array_agg(a.process order by a.number desc)
      into v_messages, v_lowered, v_severities, v_processes
      from added a
      where a.kind = 'deploy' and a.number > 0;
    end if;
    continue when not is_in_alert_scope(r.deployment_ids, r.tag_value_ids, v_deployment, v_tags);
    select count(*), (array_agg(a.message order by a.nth))[1:5]
    into v_count, v_lines
    from unnest(v_messages, v_lowered, v_severities, v_processes)
      with ordinality as a(message, lowered, severity, process, nth)
    where strpos(a.lowered, lower(r.condition ->> 'contains')) > 0
      and a.severity >= coalesce(
        array_position('{DEBUG, INFO, WARNING, ERROR, CRITICAL}', r.condition ->> 'level') - 1, 0
      )
      and (r.condition ->> 'process' is null or a.process = r.condition ->> 'process');
    continue when v_count = 0;
    insert into alert_signals as g (organization_id, tenant_id, rule_id, subject_id, at, count, lines)
    values (
      r.organization_id, r.tenant_id, r.id, v_deployment, date_bin('10 seconds', clock(), 'epoch'), v_count, v_lines
    )
    on conflict (rule_id, subject_id, at) do update set
      count = g.count + excluded.count,
      lines = (excluded.lines || g.lines)[1:5];
    perform mark_alert_due(r, v_deployment, 'deployment');
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER signal_log_lines AFTER INSERT ON public.log_lines REFERENCING NEW TABLE AS added FOR EACH STATEMENT
  EXECUTE FUNCTION signal_log_lines();
grant delete, insert, select, update (kind, number, "timestamp", severity, message, bytes_before, arrival, process,
  attributes, request_id, trace_id) on log_lines to slipway_agent;
grant delete, insert, select, update (kind, number, "timestamp", severity, message, bytes_before, arrival, process,
  attributes, request_id, trace_id) on log_lines to slipway_app;
alter table log_losses enable row level security, force row level security;
create policy admitted on log_losses as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_losses.deployment_id)))))
  with check (true);
create policy everything on log_losses to slipway_system
  using (true)
  with check (true);
create policy own on log_losses for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on log_losses to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = log_losses.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = log_losses.revision_id) AND (d.id = log_losses.deployment_id) AND
  (d.listener_id = current_listener()) AND (d.tenant_id = log_losses.tenant_id) AND
  (d.organization_id = log_losses.organization_id)))));
grant insert, select, update (lines) on log_losses to slipway_agent;
grant select on log_losses to slipway_app;
grant delete, insert, select, update on log_losses to slipway_system;
alter table mail_windows enable row level security, force row level security;
create policy everything on mail_windows to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on mail_windows to slipway_system;
alter table notices enable row level security, force row level security;
create policy everything on notices to slipway_system
  using (true)
  with check (true);
create policy own on notices for select to slipway_app
  using (((tenant_id = current_tenant()) AND (EXISTS ( SELECT
   FROM channels c
  WHERE (c.id = notices.channel_id)))));
grant select on notices to slipway_app;
grant delete, insert, select, update on notices to slipway_system;
set local role slipway_system;
create or replace function queue_finished_runs()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_tenant uuid;
begin
  for v_tenant in
    select tenant_id
    from (
      select distinct tenant_id
      from added
      where name is not null and (end_time is not null or error is not null)
    ) t
    where exists (select from run_rules r where r.tenant_id = t.tenant_id and r.is_enabled)
      or drains_traces(t.tenant_id)
    order by tenant_id
  loop
    perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || v_tenant, 0));
    insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
    select a.organization_id, a.tenant_id, a.session_id, a.id, a.trace_id, a.order_time
    from added a
    where a.tenant_id = v_tenant
      and a.name is not null
      and a.run_type is not null
      and (a.end_time is not null or a.error is not null)
      and a.session_id in (
        select p.id
        from (select distinct session_id from added where tenant_id = v_tenant) s
        join projects p on p.id = s.session_id
        where drains_traces(v_tenant) or exists (
          select from run_rules r
          where r.tenant_id = v_tenant
            and r.is_enabled
            and (r.session_id = p.id or r.dataset_id = p.reference_dataset_id)
        )
      );
  end loop;
  return null;
end $function$;
reset role;
set local role slipway_system;
create or replace function delete_own_channels()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  delete from channels c where c.tenant_id = old.tenant_id and c.member_id = old.member_id;
  return null;
end $function$;
reset role;
CREATE TRIGGER delete_own_channels AFTER DELETE ON public.workspace_members FOR EACH ROW EXECUTE FUNCTION
  delete_own_channels();
set local role slipway_system;
create or replace function add_default_alert_rules()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into alert_rules (
    organization_id, tenant_id, built_in, name, kind, condition, for_seconds, resolve_after_seconds, severity
  )
  select
    new.organization_id, new.id, r.built_in, r.name, r.condition ->> 'kind', r.condition, 0, r.resolve_after, r.severity
  from default_alert_rules() r
  on conflict do nothing;
  return null;
end $function$;
reset role;
CREATE TRIGGER add_default_alert_rules AFTER INSERT ON public.workspaces FOR EACH ROW EXECUTE FUNCTION
  add_default_alert_rules();
create or replace function acknowledge_incident(p_incident uuid, p_message text)
 RETURNS SETOF incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
begin
  select * into i from incidents k where k.id = p_incident and k.tenant_id = current_tenant() for no key update;
  if not found then return; end if;
  if i.state = 'resolved' then perform refuse('incident_resolved'); end if;
  if i.state = 'open' then
    update incidents
    set state = 'acknowledged', version = i.version + 1, updated_at = clock()
    where id = i.id and tenant_id = i.tenant_id
    returning * into i;
    insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
    values (i.organization_id, i.tenant_id, i.id, 'acknowledged', i.value, p_message);
    if i.is_told then
      i := tell_incident(i, 'update', coalesce(p_message, i.cause), coalesce(event_actor_name(), 'a person'));
    end if;
  end if;
  return next i;
end $function$;
create or replace function alert_channels(p_tenant uuid, p_named uuid[])
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (p_named <> '{}'::uuid[]) THEN p_named ELSE ARRAY(SELECT c.id FROM channels c WHERE
  ((c.tenant_id = alert_channels.p_tenant) AND c.is_default AND c.enabled) ORDER BY c.id) END;
create or replace function apply_alert_decisions(p_decisions jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v jsonb;
  v_state alert_states;
  v_events tenant_event[] := '{}';
  v_written integer := 0;
  v_before text;
  r alert_rules;
  i incidents;
begin
  for v in
    select d.value
    from jsonb_array_elements(p_decisions) d
    order by d.value ->> 'subject_id', d.value ->> 'rule_id'
  loop
    select * into r from alert_rules a where a.id = (v ->> 'rule_id')::uuid for key share;
    continue when not found;
    v_state := jsonb_populate_record(null::alert_states, v || jsonb_build_object(
      'organization_id', r.organization_id, 'tenant_id', r.tenant_id, 'version', (v ->> 'version')::integer + 1
    ));
    if v_state.version = 1 then
      insert into alert_states select v_state.* on conflict do nothing;
    elsif v_state.phase = 'ok' and v_state.due_at is null then
      delete from alert_states s
      where s.rule_id = r.id and s.subject_id = v_state.subject_id and s.version = v_state.version - 1;
    else
      update alert_states s
      set phase = v_state.phase, since = v_state.since, relapses = v_state.relapses, sampled_at = v_state.sampled_at,
        due_at = v_state.due_at, version = v_state.version
      where s.rule_id = r.id and s.subject_id = v_state.subject_id and s.version = v_state.version - 1;
    end if;
    continue when not found;
    v_written := v_written + 1;
    if v ->> 'action' = 'open' then
      i := open_incident(r, v);
      continue when i.id is null;
      v_before := case when i.reopened > 0 then 'resolved' end;
      insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
      values (
        i.organization_id, i.tenant_id, i.id, case when i.reopened > 0 then 'reopened' else 'opened' end, i.value,
        nullif(i.cause, '')
      );
      if i.muted_until is not null then
        insert into incident_changes (organization_id, tenant_id, incident_id, kind)
        values (i.organization_id, i.tenant_id, i.id, 'muted');
      elsif i.tell_at is null then
        i := tell_incident(i, 'open', i.cause);
      end if;
      v_events := v_events || incident_event(i, 'incident.opened', v_before);
    elsif v ->> 'action' = 'resolve' then
      select *
      into i
      from incidents k
      where k.rule_id = r.id and k.subject_id = v_state.subject_id and k.state <> 'resolved'
      for no key update;
      continue when not found;
      v_before := i.state;
      i := resolve_incident(i, v ->> 'message');
      v_events := v_events || incident_event(i, 'incident.resolved', v_before);
    elsif v ->> 'value' is not null then
      update incidents k
      set value = (v ->> 'value')::double precision,
        last_at = case when v_state.phase = 'firing' then clock() else k.last_at end
      where k.rule_id = r.id and k.subject_id = v_state.subject_id and k.state <> 'resolved'
        and k.value is distinct from (v ->> 'value')::double precision;
    end if;
  end loop;
  perform journal_tenant_events(v_events, null);
  return v_written;
end $function$;
create or replace function apply_reports(p_agent text, p_fence bigint, p_reports jsonb, p_daily_limit bigint,
  p_unused_after interval)
 RETURNS TABLE(deployment_id uuid, revision_id uuid, code text, generation integer, hooked_tenant uuid)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v record;
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_was_served boolean;
  v_path text[];
  v_reached integer;
  v_event_count integer;
  v_successor integer;
  v_is_sent_back boolean;
  v_generation integer;
  v_events tenant_event[] := '{}';
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_removed uuid[] := '{}';
  v_forgotten uuid[] := '{}';
begin
  perform from deployments c
  where c.id = any(array(select (g ->> 'deployment_id')::uuid from jsonb_array_elements(p_reports) g))
    and c.listener_id = v_listener.id
  order by c.id
  for update;
  -- In one order, because several listeners may serve a host.
  perform from custom_hosts h
  where h.host = any(array(
      select g #>> '{custom_host,host}'
      from jsonb_array_elements(p_reports) g
      where g #>> '{custom_host,host}' is not null
    ))
  order by h.host
  for update;

  for v in
    select g.*, c as deployment, n as revision
    from rows from (
      jsonb_to_recordset(p_reports) as (
        deployment_id uuid, revision_id uuid, generation integer, state text, message text, commit jsonb,
        image_uri text, url text, healthy boolean, last_request_at timestamptz, application_version text,
        build_plan json, health jsonb, incidents jsonb, local_url text, awaits_database boolean, traffic json,
        custom_host jsonb
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, health, incidents, local_url, awaits_database, traffic, custom_host, place
    )
    left join deployments c on c.id = g.deployment_id and c.listener_id = v_listener.id
    left join revisions n on n.id = g.revision_id and n.deployment_id = c.id
    order by g.place
  loop
    v_before := v.deployment;
    d := v.deployment;
    r := v.revision;
    v_event_count := cardinality(v_events);
    deployment_id := v.deployment_id;
    revision_id := v.revision_id;
    generation := d.generation;
    hooked_tenant := null;
    if d.id is null then
      v_was_served := exists (
        select from sync_items i where i.deployment_id = v.deployment_id and i.listener_id = v_listener.id
      );
    end if;
    code := report_code(v.state, v.generation, v.revision_id, d, r, v_was_served);
    if code is not null then
      return next;
      continue;
    end if;

    if v.state = 'removed' then
      generation := null;
      if d.id is null then
        v_forgotten := v_forgotten || v.deployment_id;
      else
        v_removed := v_removed || d.id;
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'deployment.removed',
          d.id,
          '{}',
          changed_members(jsonb_build_object('status', d.status), null)
        )::tenant_event;
      end if;
    else
      v_path := case
        when v.state in ('building', 'built', 'deploying', 'deployed', 'failed') then report_path(r.status, v.state)
      end;
      -- One that has a share of the traffic never ends by itself, so the next one would wait for ever.
      v_successor := case
        when v.state = 'deploying' and d.in_flight_revision_id = r.id and v.traffic ->> 'revision_id' = r.id::text
          then (select w.number from revisions w where w.id = d.waiting_revision_id and w.status = 'QUEUED')
      end;
      if v_successor is not null then v_path := '{INTERRUPTED}'; end if;
      -- Only a revision that had its share was judged. One that never started ends without a hold.
      v_is_sent_back := v.state = 'failed' and v_path = '{DEPLOY_FAILED}' and d.in_flight_revision_id = r.id
        and rollout_of(d) is not null
        and r.id::text in (v.traffic ->> 'revision_id', d.applied_traffic ->> 'revision_id');
      if v_is_sent_back then
        d := fail_rollout(
          d, r, v.message, coalesce(nullif((v.traffic -> 'rollout')::jsonb, 'null'), judged_health(v.message))
        );
        v_events := v_events || rollout_event(
          'deployment.rollout_failed', v_before, d, jsonb_build_object('message', v.message)
        );
      end if;
      if cardinality(v_path) > 0
        or v.state = 'deploying' and r.status = 'DEPLOYING' and v.message is distinct from r.status_message then
        v_next := r;
        v_next.status_message := case
          when v_successor is not null then 'Superseded by revision ' || v_successor
          when v.state in ('deploying', 'failed') then v.message
        end;
        v_next.source_revision_config :=
          r.source_revision_config::jsonb || resolved_config(r, v.commit, v.image_uri);
        v_next.commit := coalesce('{"message": null, "author": null}' || v.commit, r.commit::jsonb);
        v_next.build_plan := coalesce(v.build_plan, r.build_plan);
        v_next.status := coalesce(v_path[cardinality(v_path)], r.status);
        v_events := v_events || step_events(
          r, v_next, v_path, case v.state when 'failed' then v.message end, v.commit ->> 'sha'
        );
        v_revisions := v_revisions || v_next;
        d := follow_revision(d, r, v_next);
        if d.active_revision_id = v_next.id and v_before.active_revision_id is distinct from v_next.id then
          v_events := v_events || declare_schedules(d, v_next.build_plan);
        end if;
      end if;

      -- The tag is the version of an image that the user names.
      if r.id = d.latest_revision_id and r.source not in ('internal_container', 'external_container') then
        d.image_version := coalesce(v.application_version, d.image_version);
      end if;
      d.url := coalesce(v.url, d.url);
      d.local_url := case when v.url is not null then v.local_url else d.local_url end;
      d.healthy := coalesce(v.healthy, d.healthy);
      if v.health is not null or v.state in ('serving', 'deployed') then
        d.reported_health := v.health ->> 'state';
        d.health_processes := v.health -> 'processes';
        d.health_reason := coalesce(v.health ->> 'reason', case v.state when 'serving' then v.message end);
      end if;
      -- A revision that had its share has it again once its copies run, such as after a start of its agent or of the
      -- machine. So it keeps having no deadline.
      if v.state = 'deploying' and v.traffic ->> 'revision_id' is null
        and d.applied_traffic ->> 'revision_id' = r.id::text
      then
        d.applied_traffic := json_build_object('revision_id', r.id, 'share', 0);
      elsif v.state in ('deploying', 'deployed', 'serving') then
        d.applied_traffic := v.traffic;
      end if;
      v_generation := d.generation;
      if v.state = 'deploying' then d := apply_judged_rollout(d); end if;
      d := add_incidents(d, v.incidents);
      v_events := v_events || follow_custom_host(d, v.custom_host);
      -- `least` ignores nulls: without a time, it would be now.
      if v.last_request_at is not null then
        d.last_request_at := greatest(d.last_request_at, least(v.last_request_at, clock()));
      end if;
      d.status := case
        when v.state = 'database_ready' and d.status = 'AWAITING_DATABASE' then 'READY'
        when v.awaits_database and d.status = 'READY' then 'AWAITING_DATABASE'
        when d.status = 'UNUSED' and v.last_request_at > clock() - p_unused_after then 'READY'
        else d.status
      end;
      if v.state = 'database_ready' then d := with_database_copied(d, v_listener); end if;
      v_reached := reached_generation(v.state, v.generation, v.revision_id, v_before);
      -- The end of a revision without a successor: the agent has reached the next generation with it.
      if v_reached = v_before.generation
        -- The next step of a rollout is still to come.
        and d.generation = v_generation
        and nullif(d.in_flight_revision_id, v_before.in_flight_revision_id) is null then
        d.acknowledged := d.generation;
      else
        d.acknowledged := greatest(d.acknowledged, v_reached);
      end if;
      v_deployments := v_deployments || d;
      v_events := v_events || deployment_events(v_before, d);
      generation := d.generation;
    end if;
    if cardinality(v_events) > v_event_count and has_webhooks(d.tenant_id) then hooked_tenant := d.tenant_id; end if;
    return next;
  end loop;

  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, case when v_listener.tenant_id is not null then p_daily_limit end);
  perform write_moved_deployments(v_deployments);
  delete from deployments c where c.id = any(v_removed) and c.listener_id = v_listener.id;
  if cardinality(v_forgotten) > 0 then perform delete_sync_items(v_forgotten); end if;
end $function$;
create or replace function default_alert_rules()
 RETURNS TABLE(built_in text, name text, severity text, resolve_after integer, condition jsonb)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  values
    ('unhealthy', 'Not healthy', 'critical', 60, jsonb_build_object(
      'kind', 'event',
      'types', '["deployment.crash_looping", "deployment.unhealthy", "deployment.health_flapping"]'::jsonb,
      'ends', '["deployment.healthy", "deployment.degraded", "deployment.removed"]'::jsonb
    )),
    ('error_rate', 'Many requests fail', 'error', 300, jsonb_build_object(
      'kind', 'metric', 'metric', 'error_rate', 'operator', 'above', 'threshold', 0.05, 'clear_threshold', 0.02,
      'window_seconds', 300, 'min_requests', 20
    )),
    ('out_of_memory', 'Out of memory', 'error', 1800, jsonb_build_object(
      'kind', 'event', 'types', '["deployment.out_of_memory"]'::jsonb, 'ends', '[]'::jsonb
    )),
    ('disk_nearly_full', 'Disk nearly full', 'warning', 300, jsonb_build_object(
      'kind', 'metric', 'metric', 'disk', 'operator', 'above', 'threshold', 0.9, 'clear_threshold', 0.85,
      'window_seconds', 300, 'min_requests', 0
    )),
    ('disk_full', 'Disk full', 'critical', 1800, jsonb_build_object(
      'kind', 'event', 'types', '["deployment.disk_full"]'::jsonb, 'ends', '[]'::jsonb
    )),
    ('listener_lost', 'Listener lost', 'critical', 60, jsonb_build_object(
      'kind', 'event', 'types', '["listener.lost"]'::jsonb, 'ends', '["listener.found", "listener.deleted"]'::jsonb
    )),
    ('certificate', 'Certificate or domain', 'error', 60, jsonb_build_object(
      'kind', 'event',
      'types', '["custom_host.lost", "custom_host.certificate_failed", "custom_host.unreachable"]'::jsonb,
      'ends', '["custom_host.verified", "custom_host.certificate_issued", "custom_host.reachable"]'::jsonb
    ))
$function$;
create or replace function drained_deployments(d drains, p_listener uuid)
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (((d).deployment_ids = '{}'::uuid[]) AND
  ((d).tag_value_ids = '{}'::uuid[])) THEN NULL::uuid[] ELSE ARRAY(SELECT x.id FROM deployments x WHERE
  ((x.tenant_id = (drained_deployments.d).tenant_id) AND (x.listener_id = drained_deployments.p_listener) AND
  (x.deleting_at IS NULL) AND ((x.id = ANY ((drained_deployments.d).deployment_ids)) OR (x.tag_value_ids &&
  (drained_deployments.d).tag_value_ids))) ORDER BY x.id LIMIT 10000) END;
set local role slipway_system;
create or replace function drains_traces(p_tenant uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM drains d
           WHERE ((d.tenant_id = drains_traces.p_tenant) AND d.enabled AND ('traces'::text = ANY
           (d.signals))))) AS "exists";
END;
reset role;
set local role slipway_system;
create or replace function enqueue_notices(p_tenant uuid, p_channels uuid[], p_thread text, p_phase text,
  p_sequence bigint, p_content jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_count integer;
begin
  if p_tenant <> current_tenant() then return 0; end if;
  insert into notices (organization_id, tenant_id, channel_id, thread, sequence, phase, content)
  select c.organization_id, c.tenant_id, c.id, p_thread, p_sequence, p_phase, p_content
  from channels c
  where c.id = any(p_channels) and c.tenant_id = p_tenant and c.enabled and c.confirmed_at is not null
  order by c.id
  on conflict on constraint notices_once do nothing;
  get diagnostics v_count = row_count;
  if v_count > 0 and p_phase in ('update', 'close') then
    update notices n
    set state = 'dropped', next_attempt_at = null, error = 'replaced'
    where n.channel_id = any(p_channels) and n.tenant_id = p_tenant and n.thread = p_thread
      and n.state = 'waiting' and n.phase = 'update' and n.attempts = 0 and n.sequence < p_sequence;
  end if;
  return v_count;
end $function$;
reset role;
create or replace function follow_custom_host(d deployments, p_reported jsonb)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before custom_hosts;
  h custom_hosts;
begin
  -- A report may be about the host before.
  if d.custom_host is null or d.custom_host is distinct from p_reported ->> 'host' then return '{}'; end if;
  select * into v_before from custom_hosts c where c.host = d.custom_host and c.tenant_id = d.tenant_id;
  if v_before.id is null then return '{}'; end if;
  h := v_before;
  h.certificate_failed_at := case p_reported ->> 'certificate'
    when 'failed' then coalesce(h.certificate_failed_at, clock())
    when 'valid' then null
    else h.certificate_failed_at
  end;
  h.unreachable_since := case p_reported ->> 'leads_here'
    when 'false' then coalesce(h.unreachable_since, clock())
    when 'true' then null
    else h.unreachable_since
  end;
  if (h.certificate_failed_at, h.unreachable_since)
    is not distinct from (v_before.certificate_failed_at, v_before.unreachable_since) then
    return '{}';
  end if;
  update custom_hosts c
  set certificate_failed_at = h.certificate_failed_at, unreachable_since = h.unreachable_since
  where c.id = h.id;
  return array(
    select (
      d.tenant_id,
      d.organization_id,
      'custom_host.' || case when t.after is null then t.ended else t.begun end,
      h.id,
      json_strip_nulls(json_build_object(
        'host', h.host,
        'deployment_id', d.id,
        'reason', case when t.after is not null then p_reported ->> 'reason' end
      )),
      changed_members(jsonb_build_object(t.name, t.before), jsonb_build_object(t.name, t.after))
    )::tenant_event
    from (
      values
        (
          1, 'unreachable_since', v_before.unreachable_since, h.unreachable_since, 'unreachable', 'reachable'
        ),
        (
          2, 'certificate_failed_at', v_before.certificate_failed_at, h.certificate_failed_at,
          'certificate_failed', 'certificate_issued'
        )
    ) t(place, name, before, after, begun, ended)
    where t.before is distinct from t.after
    order by t.place
  );
end $function$;
create or replace function glob_patterns(p_globs jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT replace(replace(g.value, '_'::text, '\_'::text), '*'::text,
  '%'::text) AS replace FROM jsonb_array_elements_text(glob_patterns.p_globs) g(value));
create or replace function has_webhooks(p_tenant uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (select from webhooks w where w.tenant_id = p_tenant and w.enabled)
    or exists (select from channels c where c.tenant_id = p_tenant and c.enabled and c.deploys <> 'none');
end $function$;
create or replace function incident_event(i incidents, p_type text, p_before text)
 RETURNS tenant_event
 LANGUAGE sql
 STABLE
RETURN ROW((i).tenant_id, (i).organization_id, p_type, (i).id, json_strip_nulls(json_build_object('title',
  "left"((i).title, 300), 'severity', (i).severity, 'rule_id', (i).rule_id, 'deployment_id', (i).deployment_id,
  'project_id', (i).project_id, 'cause', "left"((i).cause, 500))), changed_members(CASE WHEN
  (p_before IS NOT NULL) THEN jsonb_build_object('state', p_before) ELSE NULL::jsonb END, jsonb_build_object('state',
  (i).state)))::tenant_event;
create or replace function incident_notice(i incidents, p_summary text, p_by text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_strip_nulls(jsonb_build_object('acknowledged_by', "left"(p_by, 200), 'title', "left"((i).title, 300),
  'summary', "left"(p_summary, 4000), 'severity', (i).severity, 'url', ((('/ui/'::text ||
  (i).tenant_id) || '/alerts/'::text) || (i).id), 'facts', COALESCE(((i).evidence -> 'facts'::text), '[]'::jsonb),
  'lines', COALESCE(((i).evidence -> 'lines'::text), '[]'::jsonb), 'chart', NULLIF(((i).evidence -> 'chart'::text),
  'null'::jsonb), 'started_at', to_char(((i).opened_at AT TIME ZONE 'UTC'::text),
  'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text), 'ended_at', to_char(((i).resolved_at AT TIME ZONE 'UTC'::text),
  'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text)));
create or replace function is_alert_rule_active(r alert_rules)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return r.enabled and (
    r.built_in is null
    or not exists (select from alert_settings s where s.tenant_id = r.tenant_id and not s.defaults_enabled)
  );
end $function$;
create or replace function is_in_alert_scope(p_deployment_ids uuid[], p_tag_value_ids uuid[], p_deployment uuid,
  p_tags uuid[])
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_deployment_ids = '{}'::uuid[]) AND (p_tag_value_ids = '{}'::uuid[])) OR COALESCE((p_deployment = ANY
  (p_deployment_ids)), false) OR COALESCE((p_tags && p_tag_value_ids), false));
create or replace function mark_alert_due(p_rule alert_rules, p_subject uuid, p_subject_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into alert_states as s (organization_id, tenant_id, rule_id, subject_id, subject_type, due_at)
  values (p_rule.organization_id, p_rule.tenant_id, p_rule.id, p_subject, p_subject_type, clock())
  on conflict (rule_id, subject_id) do update set due_at = clock(), version = s.version + 1;
end $function$;
create or replace function may_be_told(c channels, p_thread text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return c.member_id is null or (
    member_permissions(c.member_id, c.tenant_id) @> array[
      'channels:read',
      case when p_thread like 'revision %' then 'deployments:read' else 'alerts:read' end
    ]
    and not has_rules(policy_roles(null, c.member_id, c.tenant_id), c.organization_id)
  );
end $function$;
set local role slipway_system;
create or replace function offer_drains(p_listener listeners, p_digest text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_list json;
  v_digest text;
begin
  if p_digest is null then return null; end if;
  with served as (
    select d as drain, drained_deployments(d, p_listener.id) as deployment_ids
    from drains d
    where d.enabled
      and d.signals && '{logs,requests,metrics}'
      and (p_listener.tenant_id is null or d.tenant_id = p_listener.tenant_id)
      and exists (
        select from deployments x
        where x.tenant_id = d.tenant_id and x.listener_id = p_listener.id and x.deleting_at is null
      )
    -- The first of each workspace before the second of any: no workspace takes the room of others.
    order by row_number() over (partition by d.tenant_id order by d.created_at, d.id), d.created_at, d.id
    limit 500
  )
  select
    json_agg(json_build_object(
      'id', (s.drain).id,
      'tenant_id', (s.drain).tenant_id,
      'kind', (s.drain).kind,
      'url', (s.drain).url,
      'compression', (s.drain).compression,
      'signals', array(
        select g from unnest((s.drain).signals) g where g in ('logs', 'requests', 'metrics')
      ),
      'deployment_ids', s.deployment_ids,
      'filter', json_build_object(
        'min_level', (s.drain).min_level,
        'processes', (s.drain).processes,
        'contains', (s.drain).contains
      ),
      'sampling_rate', (s.drain).sampling_rate,
      'headers', (s.drain).headers
    )),
    coalesce(md5(string_agg(
      concat_ws(' ', (s.drain).id, (s.drain).version, array_to_string(s.deployment_ids, ',')), E'\n'
    )), '')
  into v_list, v_digest
  from served s;
  return json_build_object(
    'digest', v_digest,
    'list', case when v_digest is distinct from p_digest then coalesce(v_list, '[]') end
  );
end $function$;
reset role;
create or replace function open_incident(r alert_rules, p_decision jsonb)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_type text := p_decision ->> 'subject_type';
  v_subject uuid := (p_decision ->> 'subject_id')::uuid;
begin
  select *
  into i
  from incidents k
  where k.rule_id = r.id and k.subject_id = v_subject and k.state = 'resolved'
    and k.resolved_at > clock() - interval '1 hour'
  order by k.resolved_at desc
  limit 1
  for no key update;
  if found then return reopen_incident(i, p_decision, r.resolve_after_seconds * interval '1 second'); end if;
  insert into incidents (
    organization_id, tenant_id, rule_id, rule_name, subject_type, subject_id, subject_name, deployment_id, project_id,
    severity, title, cause, value, evidence, channel_ids, muted_until, tell_at
  )
  values (
    r.organization_id, r.tenant_id, r.id, r.name, v_type, v_subject, p_decision ->> 'subject_name',
    case when v_type = 'deployment' then v_subject end,
    case when v_type = 'project' then v_subject end,
    r.severity, p_decision ->> 'title', coalesce(p_decision ->> 'cause', ''),
    (p_decision ->> 'value')::double precision, p_decision -> 'evidence',
    alert_channels(r.tenant_id, r.channel_ids),
    (p_decision ->> 'muted_until')::timestamptz, (p_decision ->> 'muted_until')::timestamptz
  )
  on conflict do nothing
  returning * into i;
  return i;
end $function$;
set local role slipway_system;
create or replace function queue_runs(p_runs json)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || current_tenant(), 0));
  insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
  select current_organization(), current_tenant(), p.id, r.id, r.trace_id, r.order_time
  from json_to_recordset(p_runs) as r(session_id uuid, id uuid, trace_id uuid, order_time timestamptz)
  join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
  where drains_traces(current_tenant()) or exists (
    select from run_rules q
    where q.tenant_id = current_tenant()
      and q.is_enabled
      and (q.session_id = p.id or q.dataset_id = p.reference_dataset_id)
  );
end $function$;
reset role;
create or replace function read_changes(p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer,
  p_daily_limit bigint)
 RETURNS TABLE(latest bigint, digest text, resync boolean, more boolean, changes json)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_events tenant_event[];
begin
  select coalesce(max(c.seq), 0), lpad(to_hex(coalesce(max(c.digest), 0)), 16, '0')
  into latest, digest
  from sync_cursors c
  where c.listener_id = p_listener.id;
  resync := p_cursor is null or p_cursor > latest or (p_cursor = latest and coalesce(p_digest <> digest, false));
  more := false;
  changes := '[]';

  if resync or p_cursor < latest then
    with page as (
      select i.deployment_id, i.generation, i.seq
      from sync_items i
      where i.listener_id = p_listener.id
        and i.seq > case when resync then 0 else p_cursor end
        -- Later ones come with the next poll: they were not committed when the digest was read.
        and i.seq <= latest
      order by i.seq
      -- One more than a page, to know whether there is another page.
      limit p_page_size + 1
    ),
    wanted as (
      select
        p.*,
        case when d.id is not null then json_build_object(
          'tenant_id', d.tenant_id,
          'name', d.name,
          'deployment_type', d.deployment_type,
          'source_config', d.source_config,
          'trace_key_version', d.trace_key_version,
          -- Kubernetes ran the parts of a deployment before the other engines did.
          'dormant_parts', case
            when p_listener.policy ->> 'engine' in ('process', 'container') then d.dormant_parts
          end,
          'cleared_stores', coalesce(d.cleared_stores, '{}'),
          'database_copy', d.preview -> 'database_copy',
          'protection', case when d.protection ->> 'mode' = 'members' then list_protection(d) end,
          'request_logs', d.request_logs,
          'host_labels', (
            select json_agg(
              json_build_object('label', b.label, 'revision_id', b.revision_id)
              order by b.kind <> 'deployment', b.created_at desc, b.label
            )
            from host_labels b
            where b.deployment_id = d.id and b.listener_id = d.listener_id
          ),
          -- The workspace owns the host and has proved it. A listener of its own that is not public needs no proof.
          'custom_url', case
            when h.verified_at is not null
              or h.tenant_id = p_listener.tenant_id and not p_listener.verified_hosts_only
              then d.source_config ->> 'custom_url'
          end,
          'traffic', case when s.can_split then list_traffic(d) end,
          'absent', d.deleting_at is not null
        ) end as deployment,
        -- The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues it.
        case
          when s.is_served and (s.can_split or t.id is null or t.id is distinct from d.in_flight_revision_id)
            then coalesce(d.in_flight_revision_id, l.id)
        end as revision_id,
        case when s.is_served then d.active_revision_id end as serving_id,
        case
          when s.is_served and s.can_split
            and t.id is distinct from d.in_flight_revision_id and t.id is distinct from d.active_revision_id
            then t.id
        end as beside_id
      from (select * from page order by seq limit p_page_size) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = p_listener.id
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions l on l.id = d.latest_revision_id and l.status = 'UNKNOWN'
      -- An agent that was replaced by one of an earlier release ends what it cannot protect, and starts nothing with an
      -- empty database that is to be a copy: a later one would replace what was written to it.
      cross join lateral (
        select
          d.deleting_at is null
            and may_serve(p_listener, d.protection)
            and (not awaits_database_copy(d) or copies_databases(p_listener)) as is_served,
          -- Any other one would give all traffic to a revision that is to get a part of it.
          coalesce(p_listener.policy::jsonb -> 'features' @> '"traffic"', false) as can_split
      ) s
      cross join lateral (select (d.traffic #>> '{beside, revision_id}')::uuid as id) t
    ),
    opened as (
      select
        r.*,
        (
          select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
          from json_to_recordset(r.secrets) w(name text, version integer)
          join deployment_secrets s
            on s.deployment_id = r.deployment_id and s.name = w.name and s.version = w.version
        ) as sealed,
        (
          select json_build_object('id', u.id, 'size', u.size, 'sha256', u.sha256)
          from uploads u
          where u.object_path = r.source_revision_config ->> 'source_tarball_path'
            and u.tenant_id = r.tenant_id
            and u.state = 'stored'
        ) as archive
      from revisions r
      where r.id in (
        select w.revision_id from wanted w
        union select w.serving_id from wanted w
        union select w.beside_id from wanted w
      )
    ),
    described as (
      select
        o.id,
        json_build_object(
          'id', o.id,
          'number', o.number,
          'status', o.status,
          'status_since', o.status_since,
          'source', o.source,
          'source_config', o.source_config,
          'source_revision_config', o.source_revision_config,
          'secret_references', o.secret_references,
          'sealed', o.sealed,
          'archive', o.archive
        ) as json
      from opened o
    )
    select
      (select count(*) > p_page_size from page),
      coalesce(json_agg(
        json_build_object(
          'deployment_id', w.deployment_id,
          'generation', w.generation,
          'seq', w.seq,
          'deployment', w.deployment,
          'revision', f.json,
          'serving', a.json,
          'beside', b.json
        )
        order by w.seq
      ), '[]'),
      array(
        select (
          o.tenant_id,
          o.organization_id,
          'revision.secrets_revealed',
          o.id,
          json_build_object('deployment_id', o.deployment_id, 'fence', p_listener.fence),
          null
        )::tenant_event
        from opened o
        where o.sealed is not null
      )
    into more, changes, v_events
    from wanted w
    left join described f on f.id = w.revision_id
    left join described a on a.id = w.serving_id
    left join described b on b.id = w.beside_id;
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  -- This comes last, because it locks cursors. An adopted deployment is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $function$;
create or replace function reopen_incident(i incidents, p_decision jsonb, p_calm interval)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update incidents
  set
    state = 'open',
    reopened = i.reopened + 1,
    value = (p_decision ->> 'value')::double precision,
    cause = coalesce(p_decision ->> 'cause', cause),
    evidence = p_decision -> 'evidence',
    last_at = clock(),
    resolved_at = null,
    is_told = false,
    muted_until = (p_decision ->> 'muted_until')::timestamptz,
    tell_at = greatest(
      (p_decision ->> 'muted_until')::timestamptz,
      clock() + least(interval '1 hour', greatest(p_calm, interval '5 minutes') * power(2, least(i.reopened, 6)))
    ),
    version = i.version + 1,
    updated_at = clock()
  where id = i.id and tenant_id = i.tenant_id
  returning * into i;
  return i;
end $function$;
set local role slipway_system;
create or replace function report_drains(p_agent text, p_fence bigint, p_reports jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
begin
  insert into drain_states as s (
    drain_id, listener_id, organization_id, tenant_id, epoch, epoch_sent, epoch_dropped, sent, dropped, waiting,
    waiting_bytes, last_sent_at, failing_since, error
  )
  select
    d.id, v_listener.id, d.organization_id, d.tenant_id, r.epoch, r.sent, r.dropped, r.sent, r.dropped, r.waiting,
    r.waiting_bytes, r.last_sent_at, r.failing_since, r.error
  from (
    select distinct on (r.id) r.*
    from jsonb_to_recordset(p_reports) as r(
      id uuid, epoch uuid, sent bigint, dropped bigint, waiting bigint, waiting_bytes bigint, last_sent_at timestamptz,
      failing_since timestamptz, error text
    )
    order by r.id
  ) r
  join drains d on d.id = r.id
  where (v_listener.tenant_id is null or d.tenant_id = v_listener.tenant_id)
    and exists (
      select from deployments x where x.tenant_id = d.tenant_id and x.listener_id = v_listener.id
    )
  order by d.id
  on conflict (drain_id, listener_id) do update set
    epoch = excluded.epoch,
    sent = least(
      s.sent + excluded.sent
        - case when s.epoch = excluded.epoch then least(s.epoch_sent, excluded.sent) else 0 end,
      9007199254740991
    ),
    dropped = least(
      s.dropped + excluded.dropped
        - case when s.epoch = excluded.epoch then least(s.epoch_dropped, excluded.dropped) else 0 end,
      9007199254740991
    ),
    epoch_sent = excluded.epoch_sent,
    epoch_dropped = excluded.epoch_dropped,
    waiting = excluded.waiting,
    waiting_bytes = excluded.waiting_bytes,
    last_sent_at = coalesce(excluded.last_sent_at, s.last_sent_at),
    failing_since = excluded.failing_since,
    error = excluded.error,
    reported_at = clock();
end $function$;
reset role;
create or replace function require_channel_owner(p_member uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_member is not distinct from actor_member() and p_member is not null then return true; end if;
  if not 'channels:manage' = any(actor_permissions()) then
    perform refuse('permission_missing', 'channels:manage');
  end if;
  return true;
end $function$;
create or replace function resolve_incident(i incidents, p_message text)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update incidents
  set state = 'resolved', resolved_at = clock(), last_at = clock(), tell_at = null, version = i.version + 1,
    updated_at = clock()
  where id = i.id and tenant_id = i.tenant_id
  returning * into i;
  insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
  values (i.organization_id, i.tenant_id, i.id, 'resolved', i.value, p_message);
  if i.is_told then i := tell_incident(i, 'close', coalesce(p_message, 'Resolved.')); end if;
  return i;
end $function$;
create or replace function resolve_incident_by_hand(p_incident uuid, p_message text)
 RETURNS SETOF incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
begin
  select * into i from incidents k where k.id = p_incident and k.tenant_id = current_tenant() for no key update;
  if not found then return; end if;
  if i.state <> 'resolved' then
    i := resolve_incident(i, coalesce(p_message, 'Resolved by ' || coalesce(event_actor_name(), 'a person') || '.'));
    update alert_states s
    set phase = 'dismissed', since = null, version = s.version + 1
    where s.rule_id = i.rule_id and s.subject_id = i.subject_id and s.tenant_id = i.tenant_id;
  end if;
  return next i;
end $function$;
create or replace function resolve_incidents_of_rule(p_rule uuid)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_count integer := 0;
begin
  for i in
    select k.*
    from incidents k
    where k.rule_id = p_rule and k.tenant_id = current_tenant() and k.state <> 'resolved'
    order by k.id
    for no key update
  loop
    perform resolve_incident(i, 'The rule was deleted.');
    v_count := v_count + 1;
  end loop;
  return v_count;
end $function$;
create or replace function set_request_logs(p_deployment uuid, p_logs json, p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if p_needs <> '[]' then perform require_listener_allows(v_stored.listener_id, p_needs); end if;
  update deployments d
  set
    request_logs = p_logs,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.request_logs_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('request_logs', v_stored.request_logs),
        jsonb_build_object('request_logs', v_changed.request_logs)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function signal_alert_rules(p_tenant uuid, p_type text, p_subject uuid, p_data json,
  p_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  r alert_rules;
  v_deployment uuid;
  v_tags uuid[];
  v_subject uuid;
  v_subject_type text;
  v_is_start boolean;
begin
  for r in
    select a.*
    from alert_rules a
    where a.tenant_id = p_tenant and a.kind = 'event' and a.enabled
      and (
        p_type like any(glob_patterns(a.condition -> 'types'))
        or p_type like any(glob_patterns(a.condition -> 'ends'))
      )
    order by a.id
  loop
    continue when not is_alert_rule_active(r);
    if v_subject is null then
      v_deployment := case
        when p_type like 'deployment.%' then p_subject
        when p_data ->> 'deployment_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
          then (p_data ->> 'deployment_id')::uuid
        when p_type like 'revision.%' then (select v.deployment_id from revisions v where v.id = p_subject)
      end;
      v_tags := (
        select d.tag_value_ids from deployments d where d.id = v_deployment and d.tenant_id = p_tenant
      );
      v_subject_type := case
        when v_tags is not null then 'deployment'
        when p_type like 'listener.%' then 'listener'
        else 'workspace'
      end;
      v_subject := case v_subject_type
        when 'deployment' then v_deployment
        when 'listener' then p_subject
        else p_tenant
      end;
    end if;
    v_is_start := p_type like any(glob_patterns(r.condition -> 'types'));
    continue when not is_in_alert_scope(r.deployment_ids, r.tag_value_ids, v_deployment, v_tags);
    -- Most ends are of nothing.
    continue when not v_is_start
      and not exists (select from alert_states s where s.rule_id = r.id and s.subject_id = v_subject);
    insert into alert_signals as g (organization_id, tenant_id, rule_id, subject_id, at, count, cause)
    values (
      r.organization_id, r.tenant_id, r.id, v_subject, p_at, v_is_start::integer,
      left(coalesce(p_data ->> 'message', p_type), 2000)
    )
    on conflict (rule_id, subject_id, at) do update set count = excluded.count, cause = excluded.cause;
    perform mark_alert_due(r, v_subject, v_subject_type);
  end loop;
end $function$;
set local role slipway_system;
create or replace function take_mail(p_scopes text[], p_limits integer[], p_window interval)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_wait integer;
begin
  insert into mail_windows as w (scope, mails)
  select s.scope, 0
  from unnest(p_scopes) s(scope)
  order by s.scope
  on conflict (scope) do update set
    mails = case when w.started_at > clock() - p_window then w.mails else 0 end,
    started_at = case when w.started_at > clock() - p_window then w.started_at else clock() end;
  select ceil(extract(epoch from max(w.started_at + p_window - clock())))
  into v_wait
  from mail_windows w
  join unnest(p_scopes, p_limits) s(scope, most) on s.scope = w.scope
  where w.mails >= s.most;
  if v_wait > 0 then return v_wait; end if;
  update mail_windows w set mails = w.mails + 1 where w.scope = any(p_scopes);
  return 0;
end $function$;
reset role;
create or replace function tell_due_incidents(p_muted jsonb, p_ids uuid[])
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_told integer := 0;
begin
  for i in
    select k.*
    from incidents k
    where k.id = any(p_ids) and k.tell_at <= clock() and k.state <> 'resolved'
    order by k.id
    for no key update skip locked
  loop
    if p_muted ? i.id::text then
      update incidents
      set tell_at = (p_muted ->> i.id::text)::timestamptz, muted_until = (p_muted ->> i.id::text)::timestamptz
      where id = i.id;
    else
      update incidents set muted_until = null where id = i.id;
      i.muted_until := null;
      i := tell_incident(i, 'open', i.cause);
      v_told := v_told + 1;
    end if;
  end loop;
  return v_told;
end $function$;
create or replace function tell_incident(i incidents, p_phase text, p_summary text, p_by text DEFAULT NULL::text)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_told integer;
begin
  i.sequence := i.sequence + 1;
  v_told := enqueue_notices(
    i.tenant_id, i.channel_ids, i.id::text, p_phase, i.sequence, incident_notice(i, p_summary, p_by)
  );
  i.is_told := i.is_told or v_told > 0;
  if p_phase <> 'update' then i.tell_at := null; end if;
  update incidents
  set sequence = i.sequence, is_told = i.is_told, tell_at = i.tell_at
  where id = i.id and tenant_id = i.tenant_id;
  if v_told > 0 then
    insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
    values (i.organization_id, i.tenant_id, i.id, 'told', i.value, v_told || case v_told
      when 1 then ' channel'
      else ' channels'
    end);
  end if;
  return i;
end $function$;
set local role slipway_system;
create or replace function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean)
 RETURNS SETOF custom_hosts
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid := current_tenant();
  v_before custom_hosts;
  v_locked uuid[];
begin
  -- Deployments are locked before their host. If one takes the host after the deployments were locked, raising an error
  -- releases both locks, and the loop takes them again. The host's lock keeps others out.
  loop
    begin
      v_locked := array(
        select id from (select id from deployments where custom_host = p_host order by id for update) as locked
      );
      insert into custom_hosts as h (host, organization_id, tenant_id)
      values (p_host, current_organization(), v_tenant)
      on conflict (host) do update set host = excluded.host
      returning * into v_before;
      exit when not exists (select from deployments where custom_host = p_host and not id = any(v_locked));
      raise sqlstate 'SW002';
    exception when sqlstate 'SW002' then
    end;
  end loop;
  if v_before.tenant_id <> v_tenant and v_before.verified_at is not null
    and not (p_owner_gone and v_before.tenant_id is not distinct from p_owner) then
    perform refuse('custom_host_taken');
  end if;
  -- Both journals in one order, and before the cursors that the update of deployments locks.
  perform from journals where scope_id in (v_before.tenant_id, v_tenant) order by scope_id for update;
  if v_before.tenant_id <> v_tenant then
    with numbered as (
      insert into journals (scope_id, organization_id, seq)
      values (v_before.tenant_id, v_before.organization_id, 1)
      on conflict (scope_id) do update set seq = journals.seq + 1
      returning seq
    )
    -- The event has no name and no request of the new owner: another workspace must not see them.
    insert into events (
      scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_name, request_id, request, data,
      changes
    )
    select
      v_before.tenant_id,
      seq,
      v_before.organization_id,
      v_before.tenant_id,
      'custom_host.lost',
      v_before.id,
      'cron',
      null,
      setting('request_id'),
      null,
      json_build_object('host', p_host),
      changed_members(jsonb_build_object('host', p_host, 'verified_at', v_before.verified_at), null)
    from numbered;
  end if;
  if v_before.tenant_id <> v_tenant or v_before.verified_at is null then
    update deployments
    set generation = generation + 1, remote_reconciled = false
    where custom_host = p_host;
  end if;
  return query
    update custom_hosts h
    set
      -- A new owner learns nothing about the previous one.
      id = case when h.tenant_id = v_tenant then h.id else gen_random_uuid() end,
      created_at = case when h.tenant_id = v_tenant then h.created_at else clock() end,
      organization_id = current_organization(),
      tenant_id = v_tenant,
      verified_at = clock(),
      certificate_failed_at = case when h.tenant_id = v_tenant then h.certificate_failed_at end,
      unreachable_since = case when h.tenant_id = v_tenant then h.unreachable_since end
    where h.host = p_host
    returning h.*;
end $function$;
reset role;
set local role slipway_system;
revoke execute on function actor_member() from public;
grant execute on function actor_member() to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function add_default_alert_rules() from public;
reset role;
set local role slipway_system;
revoke execute on function check_alert_mute_references() from public;
reset role;
set local role slipway_system;
revoke execute on function check_alert_rule_references() from public;
reset role;
set local role slipway_system;
revoke execute on function check_channel_references() from public;
reset role;
set local role slipway_system;
revoke execute on function check_drain_references() from public;
reset role;
set local role slipway_system;
revoke execute on function delete_own_channels() from public;
reset role;
set local role slipway_system;
revoke execute on function drains_traces(uuid) from public;
reset role;
set local role slipway_system;
revoke execute on function enqueue_notices(uuid, uuid[], text, text, bigint, jsonb) from public;
grant execute on function enqueue_notices(uuid, uuid[], text, text, bigint, jsonb) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function look_at_changed_rule() from public;
reset role;
set local role slipway_system;
revoke execute on function look_at_deleted_deployment() from public;
reset role;
set local role slipway_system;
revoke execute on function offer_drains(listeners, text) from public;
grant execute on function offer_drains(listeners, text) to slipway_agent;
reset role;
set local role slipway_system;
revoke execute on function report_drains(text, bigint, jsonb) from public;
grant execute on function report_drains(text, bigint, jsonb) to slipway_agent;
reset role;
set local role slipway_system;
revoke execute on function signal_event() from public;
reset role;
set local role slipway_system;
revoke execute on function signal_health() from public;
reset role;
set local role slipway_system;
revoke execute on function signal_log_lines() from public;
reset role;
set local role slipway_system;
revoke execute on function take_mail(text[], integer[], interval) from public;
grant execute on function take_mail(text[], integer[], interval) to slipway_app;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
-- Written by hand from here. Every built-in role of a workspace sees alerts and channels. Editors and admins change
-- alerts, admins channels and drains. Custom roles get the permissions from their admins.
set local role slipway_system;
--> statement-breakpoint
update roles
set permissions = permissions || '{channels:read}', version = version + 1
where id in (
    '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002',
    '00000000-0000-4000-8000-000000000003', '00000000-0000-4000-8000-000000000004'
  )
  and not permissions @> '{channels:read}';
--> statement-breakpoint
update roles
set permissions = permissions || '{channels:manage}', version = version + 1
where id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004')
  and not permissions @> '{channels:manage}';
--> statement-breakpoint
update roles
set permissions = permissions || '{alerts:read}', version = version + 1
where id in (
    '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002',
    '00000000-0000-4000-8000-000000000003', '00000000-0000-4000-8000-000000000004'
  )
  and not permissions @> '{alerts:read}';
--> statement-breakpoint
update roles
set permissions = permissions || '{alerts:manage}', version = version + 1
where id in (
    '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002',
    '00000000-0000-4000-8000-000000000004'
  )
  and not permissions @> '{alerts:manage}';
--> statement-breakpoint
update roles
set permissions = permissions || '{drains:read,drains:manage}', version = version + 1
where id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004')
  and not permissions @> '{drains:read}';
--> statement-breakpoint
reset role;
--> statement-breakpoint
--> batches
-- The rules that new workspaces have from their beginning.
insert into alert_rules (
  organization_id, tenant_id, built_in, name, kind, condition, for_seconds, resolve_after_seconds, severity
)
select
  w.organization_id, w.id, r.built_in, r.name, r.condition ->> 'kind', r.condition, 0, r.resolve_after, r.severity
from (
  select k.id, k.organization_id
  from workspaces k
  where not exists (select from alert_rules a where a.tenant_id = k.id and a.built_in is not null)
  limit 1000
) w
cross join default_alert_rules() r
on conflict do nothing
