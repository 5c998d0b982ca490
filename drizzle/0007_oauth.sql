CREATE TABLE "oauth_flows" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"provider_id" uuid NOT NULL,
	"user_id" text NOT NULL,
	"scopes" text[] NOT NULL,
	"state_hash" text NOT NULL,
	"verifier" text,
	"bound_to" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"failure" text,
	"expires_at" timestamp with time zone NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "oauth_flows_state" UNIQUE("state_hash")
);
--> statement-breakpoint
CREATE TABLE "oauth_providers" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"provider_id" text NOT NULL,
	"name" text NOT NULL,
	"client_id" text NOT NULL,
	"client_secret" text,
	"client_secret_expires_at" timestamp with time zone,
	"auth_url" text NOT NULL,
	"token_url" text NOT NULL,
	"revocation_url" text,
	"uses_pkce" boolean NOT NULL,
	"code_challenge_method" text,
	"provider_type" text,
	"mcp_server_url" text,
	"token_endpoint_auth_method" text NOT NULL,
	"registration" text NOT NULL,
	"registration_client_uri" text,
	"registration_access_token" text,
	"redirect_uri" text NOT NULL,
	"issuer" text,
	"issuer_in_answers" boolean DEFAULT false NOT NULL,
	"resource" text,
	"scopes" text[] DEFAULT '{}' NOT NULL,
	"warnings" json DEFAULT '[]' NOT NULL,
	"trace" json DEFAULT '[]' NOT NULL,
	"health" text DEFAULT 'healthy' NOT NULL,
	"health_detail" text,
	"checked_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "provider_id_conflict" UNIQUE("organization_id","provider_id")
);
--> statement-breakpoint
CREATE TABLE "oauth_reservations" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"provider_id" text NOT NULL,
	"expires_at" timestamp with time zone NOT NULL,
	CONSTRAINT "oauth_reservations_one" UNIQUE("organization_id","provider_id")
);
--> statement-breakpoint
CREATE TABLE "oauth_tokens" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"provider_id" uuid NOT NULL,
	"user_id" text NOT NULL,
	"scopes" text[] NOT NULL,
	"access_token" text NOT NULL,
	"refresh_token" text,
	"token_type" text NOT NULL,
	"bound_to" text NOT NULL,
	"expires_at" timestamp with time zone,
	"generation" integer DEFAULT 1 NOT NULL,
	"leased_until" timestamp with time zone,
	"revoked_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "oauth_tokens_one" UNIQUE("tenant_id","provider_id","user_id")
);
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "assume_s256" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "oauth_flows" ADD CONSTRAINT "oauth_flows_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "oauth_flows" ADD CONSTRAINT "oauth_flows_provider_id_oauth_providers_id_fk" FOREIGN KEY ("provider_id") REFERENCES "public"."oauth_providers"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "oauth_providers" ADD CONSTRAINT "oauth_providers_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "oauth_reservations" ADD CONSTRAINT "oauth_reservations_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "oauth_tokens" ADD CONSTRAINT "oauth_tokens_tenant_id_workspaces_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "oauth_tokens" ADD CONSTRAINT "oauth_tokens_provider_id_oauth_providers_id_fk" FOREIGN KEY ("provider_id") REFERENCES "public"."oauth_providers"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "oauth_flows_expiry" ON "oauth_flows" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "oauth_providers_checked" ON "oauth_providers" USING btree ("checked_at");--> statement-breakpoint
CREATE INDEX "oauth_tokens_page" ON "oauth_tokens" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);