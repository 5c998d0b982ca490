// `slipway explain`: why the latest revision does not serve, and the commands that help.
import type { Reply } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { type Deployment, findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'say why the latest revision does not serve',
}

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  const { serving, resources } = await client.call('GET /v2/deployments/{deployment_id}/explain', { params, signal })
  out.emit({ name: deployment.name, serving, reasons: resources }, () =>
    resources.length === 0
      ? `${deployment.name} serves its latest revision.`
      : resources
          .flatMap(({ code, detail, remedies }, i) => [
            `${i + 1}. ${out.paint('bold', code)}  ${detail}`,
            ...remedies.flatMap(({ action }) => {
              const next = REMEDY_COMMANDS[action]?.(deployment)
              return next ? [`   ${out.paint('dim', next)}`] : []
            }),
          ])
          .join('\n'),
  )
}

type Remedy = Reply<'GET /v2/deployments/{deployment_id}/explain'>['resources'][number]['remedies'][number]
/** Remedies without a command are done elsewhere, such as at the git host. */
const REMEDY_COMMANDS: Partial<Record<Remedy['action'], (deployment: Deployment) => string>> = {
  redeploy: ({ id }) => `slipway api POST /v2/deployments/${id}/revisions`,
  interrupt: ({ name }) => `slipway interrupt ${name}`,
  release_hold: ({ name }) => `slipway release ${name}`,
  view_logs: ({ name }) => `slipway logs ${name}`,
  edit_environment: ({ name }) => `slipway env list ${name}`,
  upload_source: ({ name }) => `slipway deploy --name ${name}`,
}
