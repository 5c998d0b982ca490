// The key by which clients call a graph application. It is derived from its deployment by a sealing key, so it is not
// stored, and a rotation of the trace key of the deployment changes it too.
import type { Config } from '../../env.ts'
import { createSigner } from './crypto.ts'

export async function createApplicationKey(
  { sealingKeys }: Pick<Config, 'sealingKeys'>,
  { deployment_id, version }: { deployment_id: string; version: number },
): Promise<string> {
  const signature = await createSigner(sealingKeys, 'application keys').sign(`${deployment_id}.${version}`)
  return `slg_${signature.slice(signature.indexOf('.') + 1)}`
}
