// Who may change what a deployment runs at its build, before it and beside it: that takes a permission of its own.
import { type SQL, sql } from 'drizzle-orm'
import type { Permission } from '../kernel/permissions.ts'

const NEEDED: Permission = 'deployments:change-commands'
const IN_CONFIG = ['install_command', 'build_command'] as const
/** Containers that carry commands. */
const IN_SPEC = ['init_containers', 'sidecars'] as const

type Spec = { [name in (typeof IN_SPEC)[number]]?: unknown[] | null | undefined }
type Config = { [name in (typeof IN_CONFIG)[number]]?: unknown } & { resource_spec?: Spec | null | undefined }

/**
 * Passes for a key that has the permission, and for whoever acts without one: the system, which follows what a key
 * decided.
 */
const allowed = sql`case when setting('actor_kind') <> 'key' or ${NEEDED} = any(actor_permissions()) then true
  else refuse('permission_missing', ${NEEDED}) end`

/** What is left out, null or empty is the same: no command. */
const commandsIn = (json: SQL, names: readonly string[]): SQL[] =>
  names.map(name => sql`nullif(nullif((${json})::jsonb -> ${name}::text, 'null'), '[]')`)

/** In a where clause: passes unless the commands differ and whoever asks may not change them. */
const stay = (before: SQL[], after: SQL[]): SQL => {
  const together = (parts: SQL[]) => sql`jsonb_build_array(${sql.join(parts, sql`, `)})`
  return sql`case when ${together(before)} = ${together(after)} then true else ${allowed} end`
}

const ofSpec = (spec: SQL): SQL[] => commandsIn(spec, IN_SPEC)
const ofConfig = (config: SQL): SQL[] => [
  ...commandsIn(config, IN_CONFIG),
  ...ofSpec(sql`(${config})::jsonb -> 'resource_spec'`),
]

/** Of two stored configurations. */
export const commandsStay = (before: SQL, after: SQL): SQL => stay(ofConfig(before), ofConfig(after))

/** Of two resource specifications; `before` may be null. */
export const specCommandsStay = (before: SQL, after: SQL): SQL => stay(ofSpec(before), ofSpec(after))

/** Of a configuration that is new altogether; undefined where it has no commands. */
export function commandsAllowed(config: Config): SQL | undefined {
  const spec = config.resource_spec
  const has = IN_CONFIG.some(name => config[name] != null) || IN_SPEC.some(name => spec?.[name]?.length)
  return has ? allowed : undefined
}
