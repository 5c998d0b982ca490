// Schemas of pushing images.
import * as z from 'zod'
import { CREDENTIAL } from '../../protocol/wire.ts'

export const PushToken = z
  .object({
    token: z.string().meta({
      ...CREDENTIAL,
      description: 'The password for the registry, with any user name. It is valid for an hour.',
    }),
    registry_url: z.string().meta({
      description: 'The prefix of image names of this deployment. Push to `<registry_url>/<name>:<tag>`.',
    }),
  })
  .meta({ id: 'PushToken' })
export type PushToken = z.output<typeof PushToken>

export const AccessQuery = z.object({
  service: z.string().max(300).optional().meta({ description: 'The registry’s name.' }),
  scope: z.string().max(2000).optional().meta({
    description: 'The requested access, for example `repository:<path>:pull,push`. Can be repeated.',
  }),
})

export const AccessToken = z
  .object({
    token: z.string().meta({ ...CREDENTIAL, description: 'A JWT for the registry with the granted access.' }),
    access_token: z.string().meta({ ...CREDENTIAL, description: 'The same as `token`.' }),
    expires_in: z.int().meta({ description: 'Seconds.' }),
    issued_at: z.iso.datetime(),
  })
  .meta({ id: 'RegistryAccessToken' })
export type AccessToken = z.output<typeof AccessToken>
