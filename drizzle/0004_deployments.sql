CREATE TABLE "deployment_secrets" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"name" text NOT NULL,
	"version" integer NOT NULL,
	"sealed" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "deployment_secrets_deployment_id_name_version_pk" PRIMARY KEY("deployment_id","name","version")
);
--> statement-breakpoint
CREATE TABLE "deployments" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"name" text NOT NULL,
	"name_fold" text GENERATED ALWAYS AS (lower(name)) STORED NOT NULL,
	"source" text NOT NULL,
	"deployment_type" text NOT NULL,
	"status" text NOT NULL,
	"image_version" text,
	"tag_value_ids" uuid[] DEFAULT '{}' NOT NULL,
	"source_config" json NOT NULL,
	"source_revision_config" json NOT NULL,
	"secrets" json NOT NULL,
	"secret_references" json,
	"generation" integer DEFAULT 1 NOT NULL,
	"acknowledged" integer DEFAULT 0 NOT NULL,
	"remote_reconciled" boolean DEFAULT false NOT NULL,
	"revisions" integer DEFAULT 1 NOT NULL,
	"latest_revision_id" uuid,
	"active_revision_id" uuid,
	"in_flight_revision_id" uuid,
	"waiting_revision_id" uuid,
	"hold" json,
	"deleting_at" timestamp with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "log_lines" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"revision_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"number" integer NOT NULL,
	"timestamp" timestamp with time zone NOT NULL,
	"severity" integer NOT NULL,
	"message" text NOT NULL,
	"bytes_before" bigint NOT NULL,
	CONSTRAINT "log_lines_revision_id_kind_number_pk" PRIMARY KEY("revision_id","kind","number")
);
--> statement-breakpoint
CREATE TABLE "logs" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"revision_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"lines" integer NOT NULL,
	"bytes" bigint NOT NULL,
	CONSTRAINT "logs_revision_id_kind_pk" PRIMARY KEY("revision_id","kind")
);
--> statement-breakpoint
CREATE TABLE "projects" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid,
	"name" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "project_name_taken" UNIQUE("tenant_id","name")
);
--> statement-breakpoint
CREATE TABLE "revisions" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"number" integer NOT NULL,
	"source" text NOT NULL,
	"source_config" json NOT NULL,
	"source_revision_config" json NOT NULL,
	"secrets" json NOT NULL,
	"secret_references" json,
	"status" text NOT NULL,
	"status_message" text,
	"status_since" timestamp with time zone DEFAULT clock() NOT NULL,
	"reasons" text[] NOT NULL,
	"from_revision_id" uuid,
	"commit" json,
	"actor_kind" text NOT NULL,
	"actor_id" uuid,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "revisions_number" UNIQUE("deployment_id","number")
);
--> statement-breakpoint
CREATE TABLE "tag_keys" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"key" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "tag_key_taken" UNIQUE("tenant_id","key")
);
--> statement-breakpoint
CREATE TABLE "tag_values" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"tag_key_id" uuid NOT NULL,
	"value" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "tag_value_taken" UNIQUE("tag_key_id","value")
);
--> statement-breakpoint
CREATE TABLE "uploads" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"object_path" text NOT NULL,
	"state" text DEFAULT 'offered' NOT NULL,
	"size" bigint,
	"expires_at" timestamp with time zone NOT NULL,
	"used_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "uploads_path" UNIQUE("object_path")
);
--> statement-breakpoint
ALTER TABLE "deployment_secrets" ADD CONSTRAINT "deployment_secrets_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployments" ADD CONSTRAINT "deployments_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_lines" ADD CONSTRAINT "log_lines_revision_id_revisions_id_fk" FOREIGN KEY ("revision_id") REFERENCES "public"."revisions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "logs" ADD CONSTRAINT "logs_revision_id_revisions_id_fk" FOREIGN KEY ("revision_id") REFERENCES "public"."revisions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "projects" ADD CONSTRAINT "projects_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "revisions" ADD CONSTRAINT "revisions_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tag_keys" ADD CONSTRAINT "tag_keys_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tag_values" ADD CONSTRAINT "tag_values_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tag_values" ADD CONSTRAINT "tag_values_tag_key_id_tag_keys_id_fk" FOREIGN KEY ("tag_key_id") REFERENCES "public"."tag_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "deployments_idle" ON "deployments" USING brin ("updated_at");--> statement-breakpoint
CREATE UNIQUE INDEX "deployment_name_taken" ON "deployments" USING btree ("tenant_id","name") WHERE deleting_at is null;--> statement-breakpoint
CREATE INDEX "log_lines_of_revision" ON "log_lines" USING btree ("revision_id","kind","timestamp","number");--> statement-breakpoint
CREATE INDEX "log_lines_of_deployment" ON "log_lines" USING btree ("deployment_id","kind","timestamp","revision_id","number");--> statement-breakpoint
CREATE INDEX "projects_deployment" ON "projects" USING btree ("deployment_id");--> statement-breakpoint
CREATE INDEX "projects_page" ON "projects" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "revisions_pending" ON "revisions" USING btree ("status_since") WHERE status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING');--> statement-breakpoint
CREATE INDEX "uploads_expiry" ON "uploads" USING btree ("expires_at");