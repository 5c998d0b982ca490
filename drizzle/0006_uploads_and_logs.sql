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
ALTER TABLE "log_lines" ADD CONSTRAINT "log_lines_revision_id_revisions_id_fk" FOREIGN KEY ("revision_id") REFERENCES "public"."revisions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "logs" ADD CONSTRAINT "logs_revision_id_revisions_id_fk" FOREIGN KEY ("revision_id") REFERENCES "public"."revisions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "log_lines_of_revision" ON "log_lines" USING btree ("revision_id","kind","timestamp","number");--> statement-breakpoint
CREATE INDEX "log_lines_of_deployment" ON "log_lines" USING btree ("deployment_id","kind","timestamp","revision_id","number");--> statement-breakpoint
CREATE INDEX "uploads_expiry" ON "uploads" USING btree ("expires_at");