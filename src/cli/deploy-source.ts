// The source of a deploy: a folder, an image, a repository of a git host, or a template.
import type { CallOptions, Plan } from '../client/client.ts'
import { usageError } from './failure.ts'
import type { FolderPlan } from './folder-plan.ts'
import type { Deployment, Session } from './session.ts'

export type NewDeployment = CallOptions<'POST /v2/deployments'>['body']
type DeploymentPatch = NonNullable<CallOptions<'PATCH /v2/deployments/{deployment_id}'>['body']>

export type Variable = NewDeployment['secrets'][number]
export type UploadTarget = Parameters<Session['client']['upload']>[0]
type PlannedCreation = { body: NewDeployment; plan: Plan<'POST /v2/deployments'> }

export type DeploySource = {
  /** The words for it in a question. */
  label: string
  /** The argument or option that names it on the command line, after a space. */
  argument: string
  suggestedName: string
  /**
   * The files of a folder. `showPlan` refuses those that cannot be started. `upload` is for a new deployment, unless
   * another target is given.
   */
  files?: {
    folder: string
    sha256: string
    showPlan: (deployment?: Deployment) => FolderPlan
    /** Variables that the folder itself names. Those of the command win. */
    variables: Variable[]
    upload: (target?: UploadTarget) => Promise<string>
  }
  image?: string
  /** True for a deployment that has the same source. */
  accepts: (deployment: Deployment) => boolean
  planCreation: (name: string, secrets: Variable[]) => Promise<PlannedCreation>
  patch: (deployment: Deployment) => Promise<DeploymentPatch> | DeploymentPatch
}

export async function planNew({ client, signal }: Session, body: NewDeployment): Promise<PlannedCreation> {
  return { body, plan: await client.plan('POST /v2/deployments', { body, signal }) }
}

export function requireSource(deployment: Deployment, { accepts, argument }: DeploySource): Deployment {
  if (accepts(deployment)) return deployment
  const { name, source_config, source_revision_config } = deployment
  const [what, command] = {
    internal_source: ['a folder', 'slipway deploy FOLDER'],
    githost: [`the repository ${source_config.repo_url}`, `slipway deploy --repo ${source_config.repo_url}`],
    internal_template: [
      `the template ${source_config.template_id}`,
      `slipway deploy --template ${source_config.template_id}`,
    ],
    internal_container: [`the image ${source_revision_config.image_uri}`, 'slipway deploy --image URI'],
    external_container: [`the image ${source_revision_config.image_uri}`, 'slipway deploy --image URI'],
  }[deployment.source]
  const message = `${name} is deployed from ${what}, and a deployment keeps its source.`
  throw usageError(
    `${message} Update it with \`${command}\`, or choose another name.`,
    `slipway deploy${argument} --name NAME`,
  )
}
