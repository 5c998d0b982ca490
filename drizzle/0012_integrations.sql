CREATE TABLE "integration_installs" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"actor_id" uuid,
	"expires_at" timestamp with time zone NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "integration_listings" (
	"integration_id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"pages" json NOT NULL,
	"fetched_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "integrations" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"host" text NOT NULL,
	"base_url" text NOT NULL,
	"app_id" text,
	"installation_id" text NOT NULL,
	"account_id" text NOT NULL,
	"name" text NOT NULL,
	"state" text DEFAULT 'active' NOT NULL,
	"credentials" text,
	"token" text,
	"token_expires_at" timestamp with time zone,
	"created_by" uuid,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "integration_installs" ADD CONSTRAINT "integration_installs_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "integration_listings" ADD CONSTRAINT "integration_listings_integration_id_integrations_id_fk" FOREIGN KEY ("integration_id") REFERENCES "public"."integrations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "integrations" ADD CONSTRAINT "integrations_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "integration_installs_expiry" ON "integration_installs" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "integration_taken" ON "integrations" USING btree ("tenant_id","host","base_url","installation_id") WHERE state <> 'revoked';--> statement-breakpoint
CREATE UNIQUE INDEX "integration_claimed" ON "integrations" USING btree ("base_url","installation_id") WHERE host = 'github' and state <> 'revoked';--> statement-breakpoint
CREATE INDEX "integrations_page" ON "integrations" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);