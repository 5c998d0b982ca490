// A real mail server, OpenSMTPD, for trials. Each e-mail is a file.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import type { Cleanup } from './processes.ts'

/** An e-mail as it was received, and when. */
export type ReceivedMail = { at: number; source: string }

/** A mail server that keeps each e-mail as a file. It delivers for any name as `nobody`, whom Debian has. */
export async function startMailServer({ defer }: Cleanup) {
  const folder = mkdtempSync('/tmp/slipway-mail-')
  defer(() => rmSync(folder, { recursive: true, force: true }))
  chmodSync(folder, 0o777)
  const port = await findFreePort()
  writeFileSync(
    join(folder, 'smtpd.conf'),
    [
      `listen on 127.0.0.1 port ${port}`,
      'table everybody { "@" = nobody }',
      `action keep maildir "${folder}/mail" virtual <everybody>`,
      'match from any for domain "example.com" action keep',
      '',
    ].join('\n'),
  )
  mkdirSync(join(folder, 'mail'), { mode: 0o777 })
  chmodSync(join(folder, 'mail'), 0o777)
  const child = spawn('smtpd', ['-d', '-f', join(folder, 'smtpd.conf')], { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', text => (log = (log + text).slice(-2000)))
  defer(async () => {
    child.kill()
    if (child.exitCode === null) await once(child, 'exit')
  })
  for (let attempt = 0; !(await canConnect(port)); attempt++) {
    if (attempt === 100 || child.exitCode !== null) throw new Error(`smtpd does not listen: ${log}`)
    await delay(100)
  }
  const inbox = join(folder, 'mail/new')
  const readMails = (): ReceivedMail[] =>
    (existsSync(inbox) ? readdirSync(inbox) : []).map(file => ({
      at: statSync(join(inbox, file)).mtimeMs,
      source: readFileSync(join(inbox, file), 'latin1'),
    }))
  const readIds = () => readMails().map(({ source }) => /^message-id: (<\S+>)/im.exec(source)![1]!)
  return { url: `smtp://127.0.0.1:${port}`, readIds, readMails }
}

/** The text of an e-mail without its headers, its HTML and its pictures. */
export function readText({ source }: ReceivedMail): string {
  const [, headers = '', body = ''] =
    /(?:^|\n)(content-type: text\/plain[\s\S]*?)\r?\n\r?\n([\s\S]*?)(?:\r?\n--|$)/i.exec(source) ?? []
  if (/base64/i.test(headers)) return Buffer.from(body, 'base64').toString()
  if (!/quoted-printable/i.test(source)) return body
  const bytes = body
    .replaceAll(/=\r?\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

const canConnect = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createConnection(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })
