CREATE TABLE "deployment_heads" (
	"deployment_id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"asked_at" timestamp with time zone NOT NULL,
	"gone_ref" text
);
--> statement-breakpoint
CREATE TABLE "githost_deliveries" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"receiver" text NOT NULL,
	"delivery_id" text NOT NULL,
	"event" json NOT NULL,
	"state" text DEFAULT 'waiting' NOT NULL,
	"attempts" integer DEFAULT 1 NOT NULL,
	"next_attempt_at" timestamp with time zone NOT NULL,
	"error" text,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "githost_deliveries_one" UNIQUE("receiver","delivery_id")
);
--> statement-breakpoint
CREATE TABLE "preview_hooks" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"preview_id" uuid NOT NULL,
	"url" text NOT NULL,
	"parent_id" uuid NOT NULL,
	"secret" text NOT NULL,
	"body" json NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"error" text,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "preview_policies" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"branches" text[] NOT NULL,
	"ttl_seconds" integer NOT NULL,
	"max" integer NOT NULL,
	"forks" text NOT NULL,
	"secrets" json NOT NULL,
	"resource_spec" json,
	"on_create" text,
	"on_delete" text,
	"hook_secret" text,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "previews" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"parent_id" uuid NOT NULL,
	"number" integer NOT NULL,
	"state" text NOT NULL,
	"deployment_id" uuid,
	"branch" text NOT NULL,
	"head_sha" text NOT NULL,
	"fork" boolean NOT NULL,
	"approved_sha" text,
	"approved_by" uuid,
	"changed_at" timestamp with time zone NOT NULL,
	"expires_at" timestamp with time zone NOT NULL,
	"told" text,
	"comment_id" text,
	"tell_attempts" integer DEFAULT 0 NOT NULL,
	"tell_next_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "previews_one" UNIQUE("parent_id","number")
);
--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "parent_deployment_id" uuid;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "preview" json;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "repo_key" text GENERATED ALWAYS AS (regexp_replace(regexp_replace(lower(source_config ->> 'repo_url'), '^https?://', ''), '/*(\.git)?/*$', '')) STORED;--> statement-breakpoint
ALTER TABLE "events" ADD COLUMN "actor_name" text DEFAULT setting('actor_name');--> statement-breakpoint
ALTER TABLE "revisions" ADD COLUMN "actor_name" text DEFAULT setting('actor_name');--> statement-breakpoint
ALTER TABLE "deployment_heads" ADD CONSTRAINT "deployment_heads_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "preview_hooks" ADD CONSTRAINT "preview_hooks_preview_id_previews_id_fk" FOREIGN KEY ("preview_id") REFERENCES "public"."previews"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "preview_policies" ADD CONSTRAINT "preview_policies_id_deployments_id_fk" FOREIGN KEY ("id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "previews" ADD CONSTRAINT "previews_parent_id_deployments_id_fk" FOREIGN KEY ("parent_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "githost_deliveries_due" ON "githost_deliveries" USING btree ("next_attempt_at") WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX "githost_deliveries_age" ON "githost_deliveries" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "preview_hooks_due" ON "preview_hooks" USING btree ("next_attempt_at");--> statement-breakpoint
CREATE INDEX "previews_child" ON "previews" USING btree ("deployment_id");--> statement-breakpoint
CREATE INDEX "previews_page" ON "previews" USING btree ("parent_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "previews_expiry" ON "previews" USING btree ("expires_at") WHERE state <> 'ended';--> statement-breakpoint
CREATE INDEX "deployments_previews" ON "deployments" USING btree ("parent_deployment_id") WHERE parent_deployment_id is not null;--> statement-breakpoint
CREATE INDEX "deployments_repository" ON "deployments" USING btree ("repo_key") WHERE repo_key is not null;