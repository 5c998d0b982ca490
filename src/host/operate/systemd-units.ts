// The units of systemd for an installation on one machine, as `slipway up` writes them. Pure.

export type UnitPaths = {
  /** The folder of the project. */
  root: string
  /** The programs. */
  node: string
  caddy: string
}
export type Unit = { name: (typeof UNIT_NAMES)[number]; text: string }

/**
 * Below 1024, where applications cannot listen: one that took a port while its program restarts would be sent every
 * key and every session.
 */
export const PORTS = { controlPlane: 787, router: 788 }

export const UNIT_NAMES = ['slipway-proxy', 'slipway', 'slipway-agent'] as const
export const unitFile = (name: string, folder = '/etc/systemd/system'): string => `${folder}/${name}.service`

/** A unit without it belongs to another program, or to an operator who wrote it by hand. */
export const HEADER = '# Written by `slipway up`, which writes it again. Make changes with `systemctl edit`.\n'

/** For programs that own no more than their state folder. */
export const CONFINED = `NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service`

export const createUnits = (paths: UnitPaths): Unit[] => [controlPlane(paths), agent(paths), proxy(paths)]

const controlPlane = ({ root, node }: UnitPaths): Unit => ({
  name: 'slipway',
  text: `${HEADER}[Unit]
Description=Slipway control plane
Wants=network-online.target
After=network-online.target postgresql.service
StartLimitIntervalSec=0

[Service]
User=slipway
WorkingDirectory=${root}
EnvironmentFile=/etc/slipway/control-plane.env
ExecStart=${node} --max-semi-space-size=16 src/host/main.mjs start
Restart=always
RestartSec=1
StateDirectory=slipway
StateDirectoryMode=0700
UMask=0077
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
${CONFINED}

[Install]
WantedBy=multi-user.target
`,
})

const AGENT_CAPABILITIES =
  'CHOWN DAC_OVERRIDE FOWNER KILL NET_BIND_SERVICE SETGID SETUID SETPCAP SYS_PTRACE SYS_RESOURCE'
    .split(' ')
    .map(name => `CAP_${name}`)
    .join(' ')

/** Applications and the router go on while the agent restarts: KillMode. It ends every process of one: Delegate. */
const agent = ({ root, node }: UnitPaths): Unit => ({
  name: 'slipway-agent',
  text: `${HEADER}[Unit]
Description=Slipway agent
Wants=network-online.target
After=network-online.target slipway.service slipway-proxy.service
StartLimitIntervalSec=0

[Service]
WorkingDirectory=${root}
EnvironmentFile=/etc/slipway/agent.env
ExecStart=${node} src/host/main.mjs agent --home /var/lib/slipway-agent --port ${PORTS.router} --engine \${AGENT_ENGINE}
Restart=always
RestartSec=1
Delegate=yes
KillMode=process
TasksMax=infinity
StateDirectory=slipway-agent
StateDirectoryMode=0711
NoNewPrivileges=yes
CapabilityBoundingSet=${AGENT_CAPABILITIES}
ProtectClock=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
RestrictNamespaces=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
`,
})

/** Only its own user and root enter the folder of the admin socket. It resumes what the agent has configured. */
const proxy = ({ caddy }: UnitPaths): Unit => ({
  name: 'slipway-proxy',
  text: `${HEADER}[Unit]
Description=Slipway public proxy (Caddy)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
User=slipway-proxy
Environment=HOME=/var/lib/slipway-proxy XDG_DATA_HOME=/var/lib/slipway-proxy XDG_CONFIG_HOME=/var/lib/slipway-proxy
ExecStart=${caddy} run --resume --config /etc/slipway-proxy/caddy.json
Restart=always
RestartSec=1
TimeoutStopSec=10
LimitNOFILE=1048576
RuntimeDirectory=slipway-proxy
RuntimeDirectoryMode=0700
StateDirectory=slipway-proxy
StateDirectoryMode=0700
UMask=0077
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
${CONFINED}

[Install]
WantedBy=multi-user.target
`,
})

/** Caddy starts with this, before the agent configures it. The agent polls every few seconds, which is not logged. */
export const CADDY_BASE = {
  admin: { listen: 'unix//run/slipway-proxy/admin.sock' },
  logging: { logs: { default: { exclude: ['admin.api'] } } },
}
