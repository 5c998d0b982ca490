// The documents by which clients find the authorization server (RFC 8414) and the resource that it protects (RFC 9728).
import * as z from 'zod'
import { arrayOf } from '../../protocol/wire.ts'
import { GRANT_TYPE as DEVICE_GRANT } from '../sign-in/device.ts'
import { TOKEN_EXCHANGE_GRANT } from './token-exchange.ts'

const Texts = arrayOf(z.string(), 20)

export const ResourceMetadata = z
  .object({
    resource: z.string(),
    resource_name: z.string(),
    resource_documentation: z.string(),
    authorization_servers: Texts,
    bearer_methods_supported: Texts,
  })
  .meta({ id: 'ProtectedResourceMetadata' })

export const ServerMetadata = z
  .object({
    issuer: z.string(),
    authorization_endpoint: z.string(),
    token_endpoint: z.string(),
    registration_endpoint: z.string(),
    revocation_endpoint: z.string(),
    device_authorization_endpoint: z.string(),
    response_types_supported: Texts,
    response_modes_supported: Texts,
    grant_types_supported: Texts,
    code_challenge_methods_supported: Texts,
    token_endpoint_auth_methods_supported: Texts,
    revocation_endpoint_auth_methods_supported: Texts,
    authorization_response_iss_parameter_supported: z.boolean(),
    client_id_metadata_document_supported: z.boolean(),
    service_documentation: z.string(),
  })
  .meta({ id: 'AuthorizationServerMetadata' })

/** An API key is good for both: /mcp is a part of the API. */
export const resourcesOf = (origin: string): string[] => [`${origin}/mcp`, origin]

/** Omits `scopes_supported`: clients would ask for every permission, and people choose on the page. */
export const describeResource = (origin: string, path: '' | '/mcp'): z.output<typeof ResourceMetadata> => ({
  resource: origin + path,
  resource_name: 'Slipway',
  resource_documentation: `${origin}/docs`,
  authorization_servers: [origin],
  bearer_methods_supported: ['header'],
})

export const describeServer = (origin: string): z.output<typeof ServerMetadata> => ({
  issuer: origin,
  authorization_endpoint: `${origin}/oauth/authorize`,
  token_endpoint: `${origin}/oauth/token`,
  registration_endpoint: `${origin}/oauth/register`,
  revocation_endpoint: `${origin}/oauth/revoke`,
  device_authorization_endpoint: `${origin}/device/code`,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: ['authorization_code', 'refresh_token', DEVICE_GRANT, TOKEN_EXCHANGE_GRANT],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['none'],
  revocation_endpoint_auth_methods_supported: ['none'],
  authorization_response_iss_parameter_supported: true,
  client_id_metadata_document_supported: true,
  service_documentation: `${origin}/docs`,
})
