// A receiver on this machine, and archives, for the parts of this trial.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { packFiles } from '../../../support/archives.ts'
import { until } from '../../support/two-hosts.ts'
import type { Installation } from '../whole-application/installation.ts'

type Notice = { at: number; phase: string; title: string; summary: string }

/** Receives notices, and answers applications that ask what they are to do. */
export async function startReceiver(defer: (end: () => unknown) => void, whatToDo: (name: string) => string) {
  const notices: Notice[] = []
  const failedBuilds = new Map<string, number>()
  const server = createServer(async (request, response) => {
    const [, place, name = ''] = request.url!.split('/')
    if (place === 'switch') return response.end(whatToDo(name))
    if (place === 'failed') failedBuilds.set(name, Date.now())
    if (place === 'notices') {
      const { phase, title, summary } = JSON.parse(await text(request)).data
      notices.push({ at: Date.now(), phase, title, summary })
    }
    response.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await until('the receiver listens', () => server.listening)
  defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, notices, failedBuilds }
}

export async function upload({ api }: Installation, files: Record<string, string>): Promise<string> {
  const { body } = await api('POST', '/v2/uploads', {})
  const { upload_url } = body as unknown as { upload_url: string }
  const archive = await packFiles(files)
  const answer = await fetch(upload_url, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/gzip' },
    body: archive,
  })
  if (!answer.ok) throw new Error(`The upload was refused: ${await answer.text()}`)
  return ((await answer.json()) as { object_path: string }).object_path
}
