// E-mails on the wire: the envelope, the headers, and what a refusal of the mail server comes to.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createMailSender } from '../../src/host/smtp.ts'
import type { Mail } from '../../src/platform.ts'

const MAIL: Mail = {
  to: 'team@example.com',
  subject: 'Crash loop\r\nBcc: eve@example.com',
  text: '.\r\nMAIL FROM:<eve@example.com>\r\n',
  html: '<p>Crash loop</p>',
  messageId: '<one@slipway.test>',
  references: ['<root@slipway.test>'],
  unsubscribeUrl: 'https://slipway.test/channel-links/unsubscribe?token=t',
  pictures: [{ id: 'graph', bytes: new Uint8Array([1, 2, 3]) }],
}

/** A mail server that keeps the commands and the data. It answers a recipient with `answer`. */
async function startMailServer(answer = '250 ok') {
  const commands: string[] = []
  const state = { data: '' }
  const server = createServer((socket: Socket) => {
    let isData = false
    let rest = ''
    socket.write('220 mail.test\r\n')
    socket.on('error', () => {})
    socket.on('data', chunk => {
      rest += chunk
      for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
        const line = rest.slice(0, end)
        rest = rest.slice(end + 2)
        if (isData && line !== '.') {
          state.data += `${line}\r\n`
          continue
        }
        if (isData) {
          isData = false
          socket.write('250 kept\r\n')
          continue
        }
        commands.push(line)
        isData = line === 'DATA'
        socket.write(isData ? '354 go on\r\n' : line.startsWith('RCPT') ? `${answer}\r\n` : '250 ok\r\n')
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`
  const send = createMailSender({ url, from: { name: 'Slipway', address: 'alerts@slipway.test' }, perHour: 1 })
  return { commands, state, send }
}

it('has one recipient and the headers that its parts name, whatever the texts are', async () => {
  const { commands, state, send } = await startMailServer()
  await send(MAIL)
  expect(commands.filter(line => /^(MAIL|RCPT)/.test(line))).toEqual([
    'MAIL FROM:<alerts@slipway.test>',
    'RCPT TO:<team@example.com>',
  ])
  const head = state.data.slice(0, state.data.indexOf('\r\n\r\n'))
  expect(head).not.toMatch(/^bcc:/im)
  for (const line of [
    /^Message-ID: <one@slipway.test>$/im,
    /^References: <root@slipway.test>$/im,
    /^List-Unsubscribe: <https:\/\/slipway.test\/channel-links\/unsubscribe\?token=t>$/im,
    /^List-Unsubscribe-Post: List-Unsubscribe=One-Click$/im,
    /^Auto-Submitted: auto-generated$/im,
  ])
    expect(head).toMatch(line)
  expect(state.data).toMatch(/^Content-Id: <graph>$/im)
})

it('is refused for good by 550, for a while by 451, and without a status where nobody answers', async () => {
  const refusalOf = async (answer: string) => {
    const { send } = await startMailServer(answer)
    return send(MAIL).catch(error => [error.status, error.isFinal])
  }
  expect(await refusalOf('550 no such mailbox')).toEqual([550, true])
  expect(await refusalOf('451 later')).toEqual([451, false])
  const send = createMailSender({
    url: 'smtp://127.0.0.1:1',
    from: { name: '', address: 'a@slipway.test' },
    perHour: 1,
  })
  expect(await send(MAIL).catch(error => [error.status, error.isFinal])).toEqual([null, false])
})
