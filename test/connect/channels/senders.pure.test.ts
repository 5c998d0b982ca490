// The words of each receiver: what they show, and what no name or log line can make of them.

import { inflateSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { buildMail } from '../../../src/connect/channels/senders/email.ts'
import { CHART_SIZE, drawChart } from '../../../src/connect/channels/senders/line-chart.ts'
import type { OutgoingChannel, OutgoingNotice, SendServices } from '../../../src/connect/channels/senders/outgoing.ts'
import { buildPagerDutyEvent } from '../../../src/connect/channels/senders/pagerduty.ts'
import { buildSlackMessage } from '../../../src/connect/channels/senders/slack.ts'

const services = {
  config: { publicUrl: 'https://slipway.test', smtp: { from: { name: '', address: 'alerts@slipway.test' } } },
} as unknown as SendServices
const channel: OutgoingChannel = {
  id: 'c0000000-0000-4000-8000-000000000001',
  tenant_id: 't',
  kind: 'email',
  config: { address: 'team@example.com' },
  credentials: { unsubscribe: 'token', routing_key: 'key' },
}
const makeNotice = (content: Partial<OutgoingNotice['content']> = {}, more: Partial<OutgoingNotice> = {}) => ({
  id: 'n0000000-0000-4000-8000-000000000001',
  thread: 'incident 1',
  phase: 'open' as const,
  created_at: '2026-11-30T12:00:00Z',
  mayHaveArrived: false,
  remote: null,
  content: {
    title: 'shop: error rate',
    summary: 'Half of the requests fail.',
    severity: 'error' as const,
    url: '/ui/t/deployments/d',
    facts: [{ name: 'Deployment', value: 'shop' }],
    lines: ['GET / 500'],
    started_at: '2026-11-30T12:00:00Z',
    ...content,
  },
  ...more,
})
const points: [number, number][] = [
  [0, 1],
  [60_000, 5],
  [120_000, 3],
]
const chart = { title: 'Error rate', unit: '%', points, threshold: 4 }

describe('an e-mail', () => {
  it('has the link, the last lines and the graph, and is part of the conversation of its incident', async () => {
    const opened = await buildMail(services, channel, makeNotice({ chart }))
    const closed = await buildMail(services, channel, makeNotice({}, { id: 'other', phase: 'close' }))
    for (const part of ['https://slipway.test/ui/t/deployments/d', 'GET / 500', 'from 1 % to 5 %, threshold 4 %'])
      expect([part, opened.text.includes(part), opened.html.includes(part)]).toEqual([part, true, true])
    expect(opened.html).toContain('src="cid:graph"')
    expect(opened.pictures).toHaveLength(1)
    expect(closed.references).toEqual(opened.references)
    expect(closed.subject).toBe(`Re: ${opened.subject}`)
    expect(closed.messageId).not.toBe(opened.messageId)
    expect(closed.text).toMatch(/^Resolved/)
  })

  it('has no markup and no header of any text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 200 }), async text => {
        const hostile = `<script>${text}\r\nBcc: eve@example.com`
        const mail = await buildMail(
          services,
          channel,
          makeNotice({ title: hostile, lines: [hostile], facts: [{ name: hostile, value: hostile }] }),
        )
        expect(mail.subject).not.toMatch(/[\r\n]/)
        expect(mail.html).not.toContain('<script')
      }),
      { numRuns: 50 },
    )
  })
})

describe('a picture of a graph', () => {
  it('is a PNG file of the size that the e-mail names, for any points', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.double(), fc.double()), { maxLength: 30 }),
        fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }), { nil: undefined }),
        async (any, threshold) => {
          const file = Buffer.from(await drawChart({ points: any as [number, number][], threshold }))
          expect(file.subarray(0, 8).toString('latin1')).toBe('\x89PNG\r\n\x1a\n')
          expect([file.readUInt32BE(16), file.readUInt32BE(20)]).toEqual([CHART_SIZE.width, CHART_SIZE.height])
          const data = file.indexOf('IDAT')
          const rows = inflateSync(file.subarray(data + 4, data + 4 + file.readUInt32BE(data - 4)))
          expect(rows).toHaveLength((CHART_SIZE.width + 1) * CHART_SIZE.height)
        },
      ),
      { numRuns: 30 },
    )
  })
})

describe('a message of Slack', () => {
  it('tells nobody by a name in it, and stays within the limits of blocks', () => {
    const hostile = '<!channel> ``` <@U1> & *bold* '.repeat(200)
    const notice = makeNotice({ title: hostile, summary: hostile, lines: [hostile, hostile] })
    const message = buildSlackMessage(services, notice)
    const [{ blocks }] = message.attachments as unknown as [
      { blocks: { type: string; text?: { type: string; text: string } }[] },
    ]
    expect(message.text).not.toContain('<!')
    for (const { type, text } of blocks) {
      if (!text) continue
      expect(text.text.length).toBeLessThanOrEqual(type === 'header' ? 150 : 3000)
      if (text.type !== 'plain_text') expect(text.text.slice(3, -3)).not.toMatch(/```|<!|<@/)
    }
  })
})

describe('an event of PagerDuty', () => {
  it('names one incident by one key, of at most 255 characters', () => {
    const build = (phase: OutgoingNotice['phase'], thread = 'incident 1', acknowledged_by?: string) =>
      JSON.parse(
        buildPagerDutyEvent(
          services,
          channel,
          makeNotice(acknowledged_by ? { acknowledged_by } : {}, { phase, thread }),
        ),
      )
    expect([build('open'), build('update', 'incident 1', 'Ada'), build('close')]).toMatchObject([
      { event_action: 'trigger', payload: { severity: 'error' } },
      { event_action: 'acknowledge' },
      { event_action: 'resolve', dedup_key: build('open').dedup_key },
    ])
    expect(build('open', 'x'.repeat(400)).dedup_key.length).toBeLessThanOrEqual(255)
  })
})
