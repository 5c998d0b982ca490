// The token by which an operator's authentication proxy learns who calls a model. Its claims are a contract.

import { type Claims, signJwt } from '../../kernel/crypto/signing-keys.ts'
import type { HostServices } from '../../kernel/http/context.ts'

const MODEL_JWT_SECONDS = 300
/** Verifiers may have clocks that are late. */
const EARLY_SECONDS = 5

export type ModelActor = { type: 'user' | 'api_key' | 'deployment' | 'evaluator' | 'insights'; id: string }
type Named = { id: string; name: string }

export type ModelCall = {
  /** MODEL_PROXY_ISSUER, else the origin of this installation. */
  issuer: string
  /** The organization's setting, else the origin of the configuration's `base_url`. */
  audience: string
  actor: ModelActor
  organization: Named
  workspace: Named
  request_id: string
  provider: string
  /** Empty if the body names none. */
  model: string
  streaming: boolean
  /** The SHA-256 of the body, in hex. */
  body_sha256: string
}

/** `now` in milliseconds. */
const modelClaims = (call: ModelCall, now: number, jti: string): Claims => {
  const iat = Math.floor(now / 1000)
  return {
    iss: call.issuer,
    aud: call.audience,
    sub: call.actor.id,
    iat,
    nbf: iat - EARLY_SECONDS,
    exp: iat + MODEL_JWT_SECONDS,
    jti,
    actor_type: call.actor.type,
    organization_id: call.organization.id,
    organization_name: call.organization.name,
    workspace_id: call.workspace.id,
    workspace_name: call.workspace.name,
    request_id: call.request_id,
    ...(call.actor.type === 'user' && { ls_user_id: call.actor.id }),
    model_provider: call.provider,
    model_name: call.model,
    streaming: call.streaming,
    body_sha256: call.body_sha256,
  }
}

export const signModelCall = ({ config, platform }: HostServices, call: ModelCall): Promise<string> =>
  signJwt(config, modelClaims(call, platform.clock.now(), crypto.randomUUID()))
