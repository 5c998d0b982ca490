ALTER TABLE "oauth_flows" ADD COLUMN "bound_to" text NOT NULL;--> statement-breakpoint
ALTER TABLE "oauth_tokens" ADD COLUMN "bound_to" text NOT NULL;