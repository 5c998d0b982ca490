ALTER TABLE "deployments" ADD COLUMN "hold" json;--> statement-breakpoint
CREATE INDEX "deployments_idle" ON "deployments" USING brin ("updated_at");--> statement-breakpoint
CREATE INDEX "revisions_pending" ON "revisions" USING btree ("status_since") WHERE status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING');