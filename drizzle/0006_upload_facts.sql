ALTER TABLE "uploads" ADD COLUMN "sha256" text;--> statement-breakpoint
ALTER TABLE "uploads" ADD COLUMN "actor_kind" text DEFAULT 'key' NOT NULL;--> statement-breakpoint
ALTER TABLE "uploads" ADD COLUMN "actor_id" uuid;