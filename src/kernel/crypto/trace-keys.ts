// Trace keys: an application sends runs into the project of its deployment with one, and does nothing else. A key names
// its deployment and is signed by a sealing key, so it is not stored.
import type { Config } from '../../env.ts'
import { createSigner } from './crypto.ts'

type Keys = Pick<Config, 'sealingKeys'>
/** A deployment accepts its present version only. */
export type TraceKeyOwner = { deployment_id: string; version: number }

/** `slt_<deployment, in hexadecimal>.<version>.<kid>.<mac>`: every header and variable can hold it as it is. */
const PATTERN = /^slt_([0-9a-f]{32})\.(\d{1,9})\.([^.]{1,100}\.[\w-]{43})$/
export const isTraceKey = (key: string): boolean => key.startsWith('slt_')

const signerOf = ({ sealingKeys }: Keys) => createSigner(sealingKeys, 'trace keys')
const signedText = (deployment: string, version: number | string): string => `${deployment}.${version}`

export async function createTraceKey(keys: Keys, { deployment_id, version }: TraceKeyOwner): Promise<string> {
  const deployment = deployment_id.replaceAll('-', '')
  const signature = await signerOf(keys).sign(signedText(deployment, version))
  return `slt_${deployment}.${version}.${signature}`
}

/** Returns the argument of `enter_by_deployment()`, or null if no sealing key has signed the key. */
export async function readTraceKey(keys: Keys, key: string): Promise<string | null> {
  const [, deployment = '', version = '', signature = ''] = PATTERN.exec(key) ?? []
  const text = signedText(deployment, version)
  return signature && (await signerOf(keys).verify(signature, text)) ? text : null
}
