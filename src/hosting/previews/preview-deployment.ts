// The deployment that a preview is: the parent's configuration, with the policy's changes.
import type { Caller } from '../../kernel/http/context.ts'
import { SLEEPING } from '../../protocol/defaults.ts'
import { type HostName, pullRefOf } from '../../protocol/host-kinds.ts'
import type { Source } from '../../protocol/parts.schema.ts'
import { ResourceSpec } from '../../protocol/resources.schema.ts'
import type { DeploymentRow } from '../deployments/rows.ts'
import type { NewDeployment } from '../deployments/schema.ts'
import { SOURCE_RULES } from '../deployments/source-rules.ts'
import type { previews } from '../pushes/tables.ts'
import { applyDatabase, type CopySource, databaseOf } from './preview-database.ts'
import { overlaySealContext, type PolicyRow } from './preview-policy.ts'

export type PreviewRow = typeof previews.$inferSelect
export type SealedSecret = { name: string; sealed: string }
export type PreviewPlan = {
  /** Names it and its pull request. */
  name: string
  url: string | null
  parent: DeploymentRow
  policy: PolicyRow | null
  preview: PreviewRow
  /** The parent's. */
  secrets: SealedSecret[]
  host: HostName | null
  can_sleep: boolean
  /** Null: its database is no copy, or the deployment is gone. */
  copy_source: CopySource | null
}

export const branchRef = (branch: string): string => `refs/heads/${branch}`
/** The ref that the preview follows. */
export const previewRef = ({ number, branch, request }: PreviewRow, host: HostName | null): string =>
  number === null ? (request?.repo_ref ?? branchRef(branch)) : pullRefOf(host ?? 'github', number)

export const previewSource = ({ request }: PreviewRow): Source => request?.source ?? 'githost'

/** The part of the revision's configuration that is the preview's own. */
export function previewRevisionConfig(
  preview: PreviewRow,
  host: HostName | null,
): NewDeployment['source_revision_config'] {
  const { request, head_sha } = preview
  if (previewSource(preview) !== 'githost')
    return {
      ...(request?.source_tarball_path !== undefined && { source_tarball_path: request.source_tarball_path }),
      ...(request?.image_uri !== undefined && { image_uri: request.image_uri }),
    }
  return { repo_ref: previewRef(preview, host), ...({ repo_commit_sha: head_sha } as object) }
}

export async function previewDeployment(caller: Caller, plan: PreviewPlan): Promise<NewDeployment> {
  const { parent, policy, preview, name, host, can_sleep, copy_source } = plan
  const source = previewSource(preview)
  const refused = SOURCE_RULES[source].refuses
  const allowed = <T extends object>(members: T, whole: string): T =>
    Object.fromEntries(
      Object.entries(members).filter(([member]) => !refused.some(path => path[0] === whole && path[1] === member)),
    ) as T
  // One deployment serves a URL: the parent keeps its own.
  const { custom_url: _, ...config } = parent.source_config as NewDeployment['source_config']
  const { platform_config_path } = parent.source_revision_config as NewDeployment['source_revision_config']
  const merged = mergeResources(config.resource_spec, policy, can_sleep)
  const spec = applyDatabase(merged, databaseOf(preview, policy), copy_source)
  return {
    name,
    source,
    source_config: {
      ...allowed({ ...config, resource_spec: undefined, build_on_push: undefined }, 'source_config'),
      ...(source === 'githost' && { build_on_push: false }),
      ...(spec && { resource_spec: spec }),
    } as NewDeployment['source_config'],
    source_revision_config: {
      ...(source !== 'internal_container' && source !== 'external_container' && { platform_config_path }),
      ...previewRevisionConfig(preview, host),
    },
    secrets: await previewSecrets(caller, plan),
    // Without a policy, as the parent: a link to a preview must not open what the parent keeps closed.
    protection: (policy ? policy.protection : parent.protection) ?? null,
  }
}

/**
 * A preview sleeps, unless the policy says another `min_scale`. The policy's members override the parent's. Where the
 * combination is invalid, the policy's alone apply.
 */
function mergeResources(
  spec: ResourceSpec | null | undefined,
  policy: PolicyRow | null,
  canSleep: boolean,
): ResourceSpec | undefined {
  const own: ResourceSpec = { ...(canSleep && SLEEPING), ...policy?.resource_spec }
  if (Object.keys(own).length === 0) return spec ?? undefined
  const merged = ResourceSpec.safeParse({ ...spec, ...own })
  return merged.success ? merged.data : (policy?.resource_spec as ResourceSpec | undefined)
}

/**
 * A preview of a fork runs code of strangers, so it gets none of the parent's secrets. Anybody who may push a branch
 * would read all of them, so a branch gets those that the policy names.
 */
async function previewSecrets({ sealer }: Caller, { parent, policy, preview, secrets, url }: PreviewPlan) {
  const openSecrets = (sealedSecrets: SealedSecret[], sealContext: (name: string) => string) =>
    Promise.all(
      sealedSecrets.map(
        async ({ name, sealed }) => [name, await sealer.open(sealed, parent.id, sealContext(name))] as const,
      ),
    )
  const named = policy?.inherited_secrets ?? []
  const isInherited = ({ name }: SealedSecret) =>
    preview.kind === 'pull_request' ? !preview.fork : named.includes(name)
  const inherited = await openSecrets(secrets.filter(isInherited), name => name)
  const overlay = await openSecrets(policy?.secrets ?? [], overlaySealContext)
  const variables: [string, string][] = [
    ['PREVIEW_ID', String(preview.number ?? preview.id)],
    ['PREVIEW_BRANCH', preview.branch],
    ...(url ? [['PREVIEW_URL', url] as [string, string]] : []),
  ]
  const values = new Map([...inherited, ...overlay, ...variables])
  return [...values].map(([name, value]) => ({ name, value }))
}
