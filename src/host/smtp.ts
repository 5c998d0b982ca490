// Sends e-mails to the operator's mail server by SMTP.
import type { SmtpSettings } from '../env.ts'
import { type Mail, MailError } from '../platform.ts'

/** Milliseconds for a connection, for the greeting, and for each answer. */
const CONNECT_MS = 10_000
const ANSWER_MS = 20_000
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1|\[::1\])$/

/** Options of the connection. A password never leaves without TLS, but to this machine. */
function smtpOptions({ url }: Pick<SmtpSettings, 'url'>) {
  const { protocol, hostname, port, username, password } = new URL(url)
  const isSecure = protocol === 'smtps:'
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const auth = username ? { user: decodeURIComponent(username), pass: decodeURIComponent(password) } : undefined
  return {
    host,
    port: Number(port || (isSecure ? 465 : 587)),
    secure: isSecure,
    requireTLS: !isSecure && auth !== undefined && !LOOPBACK.test(host),
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    dnsTimeout: CONNECT_MS,
    socketTimeout: ANSWER_MS,
    ...(auth && { auth }),
  }
}

/** A refusal of the recipient or the contents is final. One of the login or the server is the operator's to mend. */
function toMailError(error: unknown): MailError {
  const { responseCode, code } = error as { responseCode?: number; code?: string }
  const isOfMail = code === 'EENVELOPE' || code === 'EMESSAGE'
  return new MailError(responseCode ?? null, isOfMail && responseCode !== undefined && responseCode >= 500, error)
}

/** nodemailer is imported by the first e-mail. */
export function createMailSender(settings: SmtpSettings): (mail: Mail) => Promise<void> {
  const { from } = settings
  return async ({ to, subject, text, html, messageId, references, unsubscribeUrl, pictures }) => {
    const { createTransport } = await import('nodemailer')
    const transport = createTransport({ ...smtpOptions(settings), disableFileAccess: true, disableUrlAccess: true })
    try {
      await transport.sendMail({
        from,
        to: { name: '', address: to },
        envelope: { from: from.address, to: [to] },
        subject,
        text,
        html,
        messageId,
        ...(references.length > 0 && { references, inReplyTo: references.at(-1) }),
        headers: {
          'Auto-Submitted': 'auto-generated',
          'List-Unsubscribe': { prepared: true, value: `<${unsubscribeUrl}>` },
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
        },
        attachments: pictures.map(({ id, bytes }) => ({
          cid: id,
          filename: `${id}.png`,
          content: Buffer.from(bytes),
          contentType: 'image/png',
          contentDisposition: 'inline' as const,
        })),
      })
    } catch (error) {
      throw toMailError(error)
    } finally {
      transport.close()
    }
  }
}
