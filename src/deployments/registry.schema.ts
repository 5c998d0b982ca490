// What crosses the wire of pushing images.
import * as z from 'zod'

export const PushToken = z
  .object({
    token: z.string().meta({
      description: 'The password to log in to the registry with, under any user name. It works for an hour.',
    }),
    registry_url: z.string().meta({
      description: 'What names of images of this deployment begin with: push to `<registry_url>/<name>:<tag>`.',
    }),
  })
  .meta({ id: 'PushToken' })
export type PushToken = z.output<typeof PushToken>

export const AccessQuery = z.object({
  service: z.string().max(300).optional().meta({ description: 'The registry’s name.' }),
  scope: z.string().max(2000).optional().meta({
    description: 'What is asked for, like `repository:<path>:pull,push`; may stand several times.',
  }),
})

export const AccessToken = z
  .object({
    token: z.string().meta({ description: 'A JWT for the registry, that says what may be done there.' }),
    access_token: z.string().meta({ description: 'The same.' }),
    expires_in: z.int().meta({ description: 'In seconds.' }),
    issued_at: z.iso.datetime(),
  })
  .meta({ id: 'RegistryAccessToken' })
export type AccessToken = z.output<typeof AccessToken>
