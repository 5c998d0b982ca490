// Refuses a folder with only a Dockerfile before it is uploaded, if each agent that could serve it runs processes.
import { planNew } from './deploy-source.ts'
import { CommandFailure, EXIT } from './failure.ts'
import type { FolderPlan } from './folder-plan.ts'
import type { Deployment, Session } from './session.ts'

export type PlannedTarget = { name: string; deployment?: Deployment | undefined; plan: FolderPlan }

/** Names all of them at once. An agent of an earlier release does not say what it builds, and refuses the build. */
export async function requireImageBuilders(session: Session, targets: PlannedTarget[]): Promise<void> {
  const sentences: string[] = []
  for (const target of targets) {
    const { withoutImages } = target.plan
    if (!withoutImages || !('refusal' in withoutImages)) continue
    if ((await readBuildsImages(session, target)) !== false) continue
    sentences.push(`${target.name}: no agent that could serve it builds images. ${withoutImages.refusal.message}`)
  }
  if (sentences.length > 0)
    throw new CommandFailure(EXIT.failed, 'image_builder_missing', `${sentences.join(' ')} Nothing was changed.`)
}

async function readBuildsImages(session: Session, { name, deployment }: PlannedTarget) {
  const { client, signal } = session
  if (deployment) {
    const params = { deployment_id: deployment.id }
    const plan = await client.plan('PATCH /v2/deployments/{deployment_id}', { params, body: {}, signal })
    return plan.builds_images
  }
  const members = { source_config: {}, source_revision_config: {}, secrets: [] }
  const { plan } = await planNew(session, { name, source: 'internal_source', ...members })
  return plan.builds_images
}
