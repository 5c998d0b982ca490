// The table of source archives.
import { sql } from 'drizzle-orm'
import { bigint, index, json, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, instantColumn, parentTenantColumns } from '../../kernel/db/columns.ts'

/** Members of a deployment that decide what is found in its archive. */
export type PlanSettings = { root_directory: string | null; platform_config_path: string | null }

/** No foreign key: a row outlives its deployment until the sweep has removed the object it names. */
export const uploads = pgTable(
  'uploads',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    /** Null for the archive of a deployment that is yet to be created. */
    deployment_id: uuid(),
    object_path: text().notNull().unique('uploads_path'),
    state: text({ enum: ['offered', 'receiving', 'stored', 'removing'] })
      .notNull()
      .default('offered'),
    size: bigint({ mode: 'number' }),
    /** The largest size that it can reach while it is received, with its plan. */
    reserved: bigint({ mode: 'number' }),
    sha256: text(),
    /** The settings of the application that its plan was made with. */
    settings: json().$type<PlanSettings>(),
    build_plan: json(),
    /** The reason why the archive cannot be built or started. */
    build_refusal: text(),
    /** The actor who requested the link. The upload's event names it. */
    actor_kind: text().notNull().default('key'),
    actor_id: uuid(),
    /** The hash of the credential that requested the link and ends it. */
    made_by: text().default(sql`own_credential()`),
    expires_at: instantColumn().notNull(),
    used_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('uploads_expiry').on(t.expires_at), index('uploads_of_workspace').on(t.tenant_id, t.state)],
)
