// The proxies that the trial compares, each before the same application: nginx, with WebSockets by a server in Node.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { WebSocketServer } from 'ws'
import { RouterClient, type RouterState } from '../../../../src/agent/engines/local/router-client.ts'
import type { ServerTarget } from '../../../../src/agent/engines/local/serving.ts'
import { withOwnParts } from '../../../../src/agent/public-proxy/caddy-config.ts'
import { readProxySettings } from '../../../../src/agent/public-proxy/settings.ts'
import { readJson } from '../../../../src/agent/system/files.ts'
import { findFreePort } from '../../../../src/postgres/free-port.ts'

/** `pids`: its processes. `webSocketPath` is absent if it accepts none. */
export type Contender = { name: string; url: string; port: number; pids: () => number[]; webSocketPath?: string }

const HOST = 'localhost'
const MIB = 1024 ** 2

export class Proxies {
  readonly #root: string
  readonly #children: ChildProcess[] = []
  #webSockets: WebSocketServer | undefined
  #router: RouterClient | undefined
  application!: Contender
  #webSocketPort = 0

  constructor(root: string) {
    this.#root = root
  }

  async startApplication(): Promise<void> {
    mkdirSync(join(this.#root, 'www'))
    writeFileSync(join(this.#root, 'www', '1m'), randomBytes(MIB))
    writeFileSync(
      join(this.#root, 'www', 'list.json'),
      JSON.stringify(Array.from({ length: 2_000 }, (_, id) => ({ id }))),
    )
    this.#webSocketPort = await findFreePort()
    this.#webSockets = new WebSocketServer({ port: this.#webSocketPort, host: '127.0.0.1' })
    this.application = await this.#nginx('the application alone', 1, port => [
      `listen 127.0.0.1:${port};`,
      `root ${this.#root}/www;`,
      "location = / { default_type text/plain; return 200 'hello, hello'; }",
      `location /kept/ { alias ${this.#root}/www/; types {} default_type text/plain;`,
      'add_header Cache-Control no-transform; }',
      'types { application/json json; } default_type application/octet-stream;',
    ])
  }

  startNginx(): Promise<Contender> {
    const forward = 'proxy_http_version 1.1;'
    return this.#nginx('nginx', 2, port => [
      `listen 127.0.0.1:${port};`,
      `location / { proxy_pass http://application; ${forward} proxy_set_header Connection ""; }`,
      `location /ws { proxy_pass http://127.0.0.1:${this.#webSocketPort}; ${forward}
        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }`,
    ])
  }

  async #nginx(name: string, workers: number, server: (port: number) => string[]): Promise<Contender> {
    const port = await findFreePort()
    const folder = join(this.#root, `nginx-${port}`)
    mkdirSync(folder)
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      kind => `${kind}_temp_path ${folder}/${kind};`,
    )
    const upstream =
      this.application && `upstream application { server 127.0.0.1:${this.application.port}; keepalive 128; }`
    // Its workers would be users that cannot read the folder, if root starts it.
    const user = process.getuid?.() === 0 ? 'user root;' : ''
    const config = `
      ${user} worker_processes ${workers}; daemon off; pid ${folder}/pid; error_log ${folder}/error.log;
      events { worker_connections 8192; }
      http { access_log off; sendfile on; keepalive_requests 1000000000; ${paths.join(' ')} ${upstream ?? ''}
        server { ${server(port).join('\n')} } }`
    writeFileSync(join(folder, 'nginx.conf'), config)
    const child = this.#spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder])
    await untilAccepts(port)
    const webSocketPath = upstream && '/ws'
    return {
      name,
      port,
      url: `http://${HOST}:${port}`,
      pids: () => [child.pid!],
      ...(webSocketPath && { webSocketPath }),
    }
  }

  /** The set-up of its own documentation, without code of ours. */
  async startCaddy(name: string): Promise<Contender> {
    const port = await findFreePort()
    return this.#caddy(name, port, 'http', { apps: { http: { servers: { own: this.#caddyServer(port) } } } })
  }

  #caddyServer(port: number) {
    const forwardTo = (to: number) => ({ handler: 'reverse_proxy', upstreams: [{ dial: `127.0.0.1:${to}` }] })
    return {
      listen: [`127.0.0.1:${port}`],
      automatic_https: { disable: true },
      routes: [
        { match: [{ path: ['/ws'] }], handle: [forwardTo(this.#webSocketPort)], terminal: true },
        { handle: [forwardTo(this.application.port)] },
      ],
    }
  }

  /** With the configuration of the agent and a certificate of its own. Plain Caddy forwards to the application. */
  async startPublicCaddy(name: string, to: Contender): Promise<Contender> {
    const port = await findFreePort()
    const [file, key] = ['certificate.pem', 'key.pem'].map(part => join(this.#root, part))
    const subject = ['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`, '-days', '2']
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    execFileSync('openssl', ['req', '-x509', ...newKey, '-keyout', key!, '-out', file!, ...subject], {
      stdio: 'ignore',
    })
    const settings = readProxySettings({
      AGENT_PROXY: 'caddy',
      APPS_DOMAIN: 'apps.example.net',
      APPS_CERTIFICATE: file!,
      APPS_CERTIFICATE_KEY: key!,
    })!
    const router = { port: to.port, certificateQuestion: 'http://127.0.0.1:1/question' }
    const config = withOwnParts({}, { settings, router, certificateStamp: '1', dialect: 'permission' })
    const server = config.apps!.http!.servers!.slipway_https!
    server.listen = [`127.0.0.1:${port}`]
    if (to === this.application) {
      const [webSockets] = this.#caddyServer(port).routes
      server.routes = [webSockets, ...(server.routes as object[])]
    }
    config.apps!.http!.servers = { slipway_https: server }
    const proxy = await this.#caddy(name, port, 'https', config)
    return { ...proxy, pids: () => [...proxy.pids(), ...(to === this.application ? [] : to.pids())] }
  }

  async #caddy(name: string, port: number, scheme: string, config: object): Promise<Contender> {
    const file = join(this.#root, `caddy-${port}.json`)
    writeFileSync(
      file,
      JSON.stringify({ admin: { disabled: true }, logging: { logs: { default: { level: 'ERROR' } } }, ...config }),
    )
    const child = this.#spawn('caddy', ['run', '--config', file])
    await untilAccepts(port)
    return { name, port, url: `${scheme}://${HOST}:${port}`, pids: () => [child.pid!], webSocketPath: '/ws' }
  }

  async startRouter(parts: { path: string; target: ServerTarget }[] = this.#parts()): Promise<Contender> {
    const file = join(this.#root, 'router.json')
    const router = new RouterClient(file, 0, { trusted_proxies: ['127.0.0.1'] })
    this.#router = router
    await router.open()
    const of = { host: HOST, of: 'deployment', revision: 'revision' }
    await router.apply(() => parts.map(({ path, target }) => ({ ...of, path, targets: [{ ...target, copy: '1' }] })))
    const { pid } = readJson<RouterState>(file)!.identity!
    return {
      name: 'the router',
      port: router.port,
      url: `http://${HOST}:${router.port}`,
      pids: () => [pid],
      webSocketPath: '/ws',
    }
  }

  #parts() {
    const at = (path: string, port: number) => ({ path, target: { host: '127.0.0.1', port } })
    return [at('/', this.application.port), at('/ws', this.#webSocketPort)]
  }

  #spawn(program: string, args: string[]): ChildProcess {
    const child = spawn(program, args, { stdio: 'ignore', env: { ...process.env, HOME: this.#root } })
    this.#children.push(child)
    return child
  }

  async stop(): Promise<void> {
    await this.#router?.close()
    this.#webSockets?.close()
    for (const child of this.#children) {
      if (child.exitCode !== null) continue
      child.kill('SIGTERM')
      await Promise.race([once(child, 'exit'), delay(5_000)])
      child.kill('SIGKILL')
    }
  }
}

async function untilAccepts(port: number): Promise<void> {
  for (const end = Date.now() + 20_000; Date.now() < end; await delay(20)) {
    const socket = connect(port, '127.0.0.1')
    const accepted = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (accepted) return
  }
  throw new Error(`Nothing accepts connections at port ${port}.`)
}
