// Model tokens: an application calls the models of its workspace with one, and does nothing else. A token names its
// deployment and is signed, so it is not stored. Agents renew it long before it expires.
import * as z from 'zod'
import type { Config } from '../../env.ts'
import type { Platform } from '../../platform.ts'
import { Uuid } from '../../protocol/wire.ts'
import { fail } from '../http/errors.ts'
import { configuredOrigin } from '../http/origin.ts'
import { type SigningSettings, signJwt, verifyJwt } from './signing-keys.ts'
import type { TraceKeyOwner } from './trace-keys.ts'

export const MODEL_TOKEN_SECONDS = 900
/** Tokens that we send to models have another type, so they are not accepted here. */
const TYP = 'model-token+jwt'
const EARLY_SECONDS = 5
const Owner = z.object({ sub: Uuid, trace_key_version: z.int32().min(1) })

type TokenServices = {
  config: SigningSettings & Pick<Config, 'publicUrl' | 'deploymentModels'>
  platform: Pick<Platform, 'clock'>
}

export const modelProxyUrl = (origin: string): string => `${origin}/v1/model-proxy`
/** Issuer and audience are the proxy itself, so no other verifier accepts these tokens. */
const issuerOf = (config: Pick<Config, 'publicUrl'>): string => modelProxyUrl(configuredOrigin(config))

/** A header of JSON always begins so. */
export const isModelToken = (key: string): boolean => key.startsWith('eyJ')

/** A token has the version of the deployment's trace key, so that a rotation ends both. */
export function createModelToken(
  { config, platform }: TokenServices,
  { deployment_id, version }: TraceKeyOwner,
): Promise<string> {
  const iat = Math.floor(platform.clock.now() / 1000)
  const claims = {
    iss: issuerOf(config),
    aud: issuerOf(config),
    sub: deployment_id,
    iat,
    nbf: iat - EARLY_SECONDS,
    exp: iat + MODEL_TOKEN_SECONDS,
    trace_key_version: version,
  }
  return signJwt(config, claims, TYP)
}

/**
 * Returns the argument of `enter_by_deployment()`. All tokens of a version have the same, and so share one budget.
 */
export async function readModelToken({ config, platform }: TokenServices, token: string): Promise<string> {
  if (!config.deploymentModels) throw fail('key_unknown')
  const issuer = issuerOf(config)
  const outcome = await verifyJwt(config, token, { typ: TYP, issuer, audience: issuer, at: platform.clock.now() })
  if ('refusal' in outcome) throw fail(outcome.refusal === 'expired' ? 'model_token_expired' : 'key_unknown')
  const { data: owner } = Owner.safeParse(outcome.claims)
  if (!owner) throw fail('key_unknown')
  return `${owner.sub.replaceAll('-', '')}.${owner.trace_key_version}.models`
}
