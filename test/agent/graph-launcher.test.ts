// The variables by which graphs call models: a key that stays, in front of tokens that do not.
import * as fs from 'node:fs'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { addModels } from '../../src/agent/builds/graph-launcher.ts'

async function startModels() {
  const server = http.createServer((req, res) => res.end(`${req.url} ${req.headers.authorization}`))
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  const tokenFile = join(fs.mkdtempSync(join(tmpdir(), 'slipway-models-')), 'token')
  fs.writeFileSync(tokenFile, 'first')
  onTestFinished(() => {
    server.close()
    fs.rmSync(join(tokenFile, '..'), { recursive: true })
  })
  const { port } = server.address() as AddressInfo
  return {
    tokenFile,
    env: { SLIPWAY_MODELS_URL: `http://127.0.0.1:${port}/v1/model-proxy`, SLIPWAY_MODEL_TOKEN_FILE: tokenFile },
  }
}

it('calls have the present token, and only those with the key of the application pass', async () => {
  const { env: models, tokenFile } = await startModels()
  const env: Record<string, string> = {
    ...models,
    OPENAI_MODEL_ID: 'm1',
    ANTHROPIC_MODEL_ID: 'm2',
    ANTHROPIC_API_KEY: 'own',
  }
  await addModels(env)
  expect([env.ANTHROPIC_API_KEY, env.ANTHROPIC_BASE_URL]).toEqual(['own', undefined])
  const call = async (key: string) => {
    const answer = await fetch(`${env.OPENAI_BASE_URL}/chat/completions`, {
      headers: { Authorization: `Bearer ${key}` },
    })
    return [answer.status, await answer.text()]
  }
  expect(await call(env.OPENAI_API_KEY!)).toEqual([200, '/v1/model-proxy/m1/chat/completions Bearer first'])
  fs.writeFileSync(tokenFile, 'second')
  expect(await call(env.OPENAI_API_KEY!)).toEqual([200, '/v1/model-proxy/m1/chat/completions Bearer second'])
  expect((await call('first'))[0]).toBe(401)
})

it('nothing is set without models, or without a model', async () => {
  const { env: models } = await startModels()
  for (const env of [{ OPENAI_MODEL_ID: 'm1' }, { ...models }]) {
    const before = { ...env }
    await addModels(env)
    expect(env).toEqual(before)
  }
})
