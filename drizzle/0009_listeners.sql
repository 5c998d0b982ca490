CREATE TABLE "listeners" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid,
	"compute_type" text NOT NULL,
	"compute_id" text NOT NULL,
	"compute_config" json NOT NULL,
	"agent_id" text,
	"agent_version" text,
	"fence" bigint DEFAULT 0 NOT NULL,
	"lease_expires_at" timestamp with time zone,
	"last_seen_at" timestamp with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "listener_exists" UNIQUE NULLS NOT DISTINCT("tenant_id","compute_id")
);
--> statement-breakpoint
CREATE TABLE "sync_cursors" (
	"listener_id" uuid PRIMARY KEY NOT NULL,
	"seq" bigint NOT NULL,
	"digest" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sync_items" (
	"deployment_id" uuid PRIMARY KEY NOT NULL,
	"listener_id" uuid NOT NULL,
	"seq" bigint NOT NULL,
	"generation" integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "listener_id" uuid;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "listener_id" uuid;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "url" text;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "healthy" boolean;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "last_request_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "logs" ADD COLUMN "stream" uuid;--> statement-breakpoint
ALTER TABLE "logs" ADD COLUMN "next_line" integer;--> statement-breakpoint
ALTER TABLE "listeners" ADD CONSTRAINT "listeners_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "listeners" ADD CONSTRAINT "listeners_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sync_cursors" ADD CONSTRAINT "sync_cursors_listener_id_listeners_id_fk" FOREIGN KEY ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sync_items" ADD CONSTRAINT "sync_items_listener_id_listeners_id_fk" FOREIGN KEY ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "sync_items_changed" ON "sync_items" USING btree ("listener_id","seq");--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_listener_id_listeners_id_fk" FOREIGN KEY ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployments" ADD CONSTRAINT "listener_in_use" FOREIGN KEY ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "deployments_served" ON "deployments" USING btree ("listener_id","tenant_id") WHERE listener_id is not null;--> statement-breakpoint
CREATE INDEX "deployments_unserved" ON "deployments" USING btree ("id") WHERE listener_id is null;--> statement-breakpoint
CREATE INDEX "deployments_unknown" ON "deployments" USING btree ("listener_id") WHERE status = 'UNKNOWN';