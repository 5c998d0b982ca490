// The client of the API in a page: the session's cookie authenticates it.
import { createClient, type Reply } from '../../../src/client/client.ts'

export type Me = Reply<'GET /v2/me'>
export const client = createClient({ url: location.origin })
