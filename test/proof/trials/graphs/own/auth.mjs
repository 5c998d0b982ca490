// The application's own authentication: tokens are names, and each user has what it made.
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'
import { Hono } from 'hono'

export const auth = new Auth()
  .authenticate(request => {
    const token = request.headers.get('Authorization')?.replace('Bearer ', '')
    if (!token) throw new HTTPException(401, { message: 'Send a token.' })
    return { identity: token, permissions: ['use'] }
  })
  .on('*', ({ user, value }) => {
    if (value.metadata) value.metadata.owner = user.identity
    return { owner: user.identity }
  })
  .on('assistants', ({ action }) => action === 'read' || action === 'search')
  .on('store', ({ user, value }) => {
    value.namespace = [user.identity, ...(value.namespace ?? [])]
  })

export const app = new Hono()
  .get('/hello/:name', c => c.json({ hello: c.req.param('name'), user: c.env.user.identity }))
  .post('/upload', async c => c.json({ bytes: (await c.req.arrayBuffer()).byteLength }, 201))

/** A vector of how often letters come. */
export const embed = texts => texts.map(text => ['a', 'b', 'c'].map(letter => text.split(letter).length - 1))
