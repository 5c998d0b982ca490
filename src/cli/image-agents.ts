// Refuses what needs images before it is uploaded or created, if each agent that could serve it runs processes alone.
import { planNew } from './deploy-source.ts'
import { CommandFailure, EXIT } from './failure.ts'
import type { FolderPlan } from './folder-plan.ts'
import { planNewImage } from './remote-sources.ts'
import type { Deployment, Session } from './session.ts'

/** `plan`: of a folder. `image`: what is run in place of a folder. */
export type ImageTarget = {
  name: string
  deployment?: Deployment | undefined
  plan?: FolderPlan | undefined
  image?: string | null | undefined
}

/** Names all of them at once. An agent of an earlier release does not say what it runs, and refuses the revision. */
export async function requireImageAgents(session: Session, targets: ImageTarget[]): Promise<void> {
  const sentences: string[] = []
  for (const target of targets) {
    const need = describeNeed(target)
    if (need === undefined || (await readRunsImages(session, target)) !== false) continue
    sentences.push(`${target.name}: each agent that could serve it runs processes alone. ${need}`)
  }
  if (sentences.length > 0)
    throw new CommandFailure(EXIT.failed, 'images_not_run', `${sentences.join(' ')} Nothing was changed.`)
}

/** Undefined if an agent without images can serve it. */
function describeNeed({ plan, image }: ImageTarget): string | undefined {
  if (image) return `The image ${image} needs a listener with the container or kubernetes engine.`
  return plan?.withoutImages && 'refusal' in plan.withoutImages ? plan.withoutImages.refusal.message : undefined
}

async function readRunsImages(session: Session, { name, deployment, image }: ImageTarget) {
  const { client, signal } = session
  if (deployment) {
    const params = { deployment_id: deployment.id }
    return (await client.plan('PATCH /v2/deployments/{deployment_id}', { params, body: {}, signal })).runs_images
  }
  if (image) return (await planNewImage(session, name, image)).plan.runs_images
  const members = { source_config: {}, source_revision_config: {}, secrets: [] }
  return (await planNew(session, { name, source: 'internal_source', ...members })).plan.runs_images
}
