// The variables by which an application traces itself, unless it is configured to trace elsewhere.
import type { RevisionSpec } from '../engine.ts'

/** Each says where traces go and whether there are any. Variables of the user's own win over all of a group. */
const GROUPS = [
  /^LANG(SMITH|CHAIN)_(TRACING|TRACING_V2|ENDPOINT|API_KEY|PROJECT|SESSION|WORKSPACE_ID|RUNS_ENDPOINTS)$/,
  /^OTEL_(SDK_DISABLED|TRACES_EXPORTER|EXPORTER_OTLP_(ENDPOINT|HEADERS|PROTOCOL|TRACES_\w+))$/,
]

/** `configured`: variables of the runtime configuration. */
export function tracingVariables(
  { tracing, secrets, secret_references }: Pick<RevisionSpec, 'tracing' | 'secrets' | 'secret_references'>,
  configured: Record<string, string>,
): Record<string, string> {
  const own = [...Object.keys(configured), ...Object.keys(secrets), ...secret_references.map(({ name }) => name)]
  const overridden = GROUPS.filter(group => own.some(name => group.test(name)))
  return Object.fromEntries(
    Object.entries(tracing?.variables ?? {}).filter(([name]) => !overridden.some(group => group.test(name))),
  )
}
