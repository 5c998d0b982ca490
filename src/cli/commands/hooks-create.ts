// `slipway hooks create`: makes a secret URL that deploys, and shows it once.
import type { Declaration } from '../declaration.ts'
import { collect } from '../flags.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <name>',
  summary: 'make a URL, which is shown once',
  description: 'Makes a secret URL. A POST to it deploys the head of the ref of the deployment, without a key.',
  options: command =>
    command.option(
      '--ref <glob>',
      'a ref that a request may name instead, such as release/*. Can be repeated',
      collect,
    ),
}

type Flags = { ref?: string[] }

export async function run(session: Session, flags: Flags, [wanted, name]: [string | undefined, string]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, wanted)
  const body = { name, refs: flags.ref ?? [] }
  const params = { deployment_id: deployment.id }
  const made = await client.call('POST /v2/deployments/{deployment_id}/deploy-hooks', { params, body, signal })
  out.note('This URL is shown only now. Everyone who has it can deploy.')
  out.emit({ ...made }, () => made.url)
}
