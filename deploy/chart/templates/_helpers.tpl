{{- define "slipway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* A DNS label, as the name of a Service must be, of at most 40 characters: the suffixes of this chart and of its Jobs'
pods follow. A release may have dots in its name. */}}
{{- define "slipway.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (include "slipway.name" .) }}
{{- if .Values.fullnameOverride }}{{ $name = .Values.fullnameOverride }}
{{- else if contains (include "slipway.name" .) .Release.Name }}{{ $name = .Release.Name }}
{{- end }}
{{- $name | replace "." "-" | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Takes (list root component). */}}
{{- define "slipway.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "slipway.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Takes (list root component labels). The labels of this chart win: selectors depend on them. */}}
{{- define "slipway.labels" -}}
{{- $root := index . 0 -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_"))
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
  "app.kubernetes.io/part-of" "slipway" }}
{{- $selector := include "slipway.selector" (list $root (index . 1)) | fromYaml }}
{{- merge (dict) $selector $own (index . 2) $root.Values.labels | toYaml }}
{{- end }}

{{/* Labels and annotations. Takes (list root component labels annotations…). Earlier ones win. */}}
{{- define "slipway.metadata" -}}
{{- $root := index . 0 -}}
labels: {{- include "slipway.labels" (list $root (index . 1) (index . 2)) | nindent 2 }}
{{- $all := dict }}
{{- range slice . 3 }}{{ $all = merge $all . }}{{ end }}
{{- $all = merge $all $root.Values.annotations }}
{{- if $all }}
annotations:
  {{- range $name, $value := $all }}
  {{ $name }}: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Takes (list root image). */}}
{{- define "slipway.image" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
{{- $registry := default $root.Values.images.registry $image.registry }}
{{- $name := $image.repository }}
{{- if $registry }}{{ $name = printf "%s/%s" $registry $image.repository }}{{ end }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default $root.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* A variable's value as text: `on` is a boolean in YAML, and large numbers would get an exponent. */}}
{{- define "slipway.settingText" -}}
{{- $value := .value }}
{{- if kindIs "slice" $value }}{{ join "," $value }}
{{- else if kindIs "bool" $value }}
{{- if has .name (list "ABAC" "AUDIT_LOGS" "DEPLOYMENT_TRACING" "DEPLOYMENT_MODELS" "DATABASE_PREPARED_STATEMENTS" "K8S_TLS" "K8S_PRIVILEGES") }}
{{- ternary "on" "off" $value }}
{{- else }}{{ $value }}{{ end }}
{{- else if kindIs "float64" $value }}{{ int64 $value }}
{{- else }}{{ $value }}{{ end }}
{{- end }}

{{/* Takes a dict of variables. Gives the entries of a ConfigMap. */}}
{{- define "slipway.settingEntries" -}}
{{- range $name, $value := . }}
{{- $text := include "slipway.settingText" (dict "name" $name "value" $value) }}
{{- if and (not (kindIs "invalid" $value)) (ne $text "") }}
{{ $name }}: {{ $text | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "slipway.postgresHost" -}}
{{ include "slipway.fullname" . }}-postgres
{{- end }}

{{/* All secret variables, with the addresses of the trial Postgres: name → {value} or {existingSecret, key}. */}}
{{- define "slipway.secrets" -}}
{{- $all := dict }}
{{- range $name, $secret := .Values.secrets }}
{{- if and $secret (or $secret.value $secret.existingSecret) }}{{ $_ := set $all $name $secret }}{{ end }}
{{- end }}
{{- if .Values.postgres.enabled }}
{{- $place := printf "%s:5432/slipway" (include "slipway.postgresHost" .) }}
{{- $password := .Values.postgres.password }}
{{- range $name, $login := dict "DATABASE_URL" "app" "DATABASE_SYSTEM_URL" "system" }}
{{- $own := printf "%s/%s" $password $login | sha256sum | trunc 48 }}
{{- $_ := set $all $name (dict "value" (printf "postgres://slipway_%s_login:%s@%s" $login $own $place)) }}
{{- end }}
{{- $owner := printf "postgres://slipway:%s@%s" ($password | urlquery | replace "+" "%20") $place }}
{{- $_ := set $all "DATABASE_OWNER_URL" (dict "value" $owner) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{/* The Secret that has a variable: of the operator, or of this chart. Those end with -values, to leave other names free.
Takes a dict: root, name, secret, hook. */}}
{{- define "slipway.secretName" -}}
{{- $fullname := include "slipway.fullname" .root }}
{{- if .secret.existingSecret }}{{ .secret.existingSecret }}
{{- else if .hook }}{{ $fullname }}-migrate-values
{{- else if eq .name "DATABASE_OWNER_URL" }}{{ $fullname }}-postgres-values
{{- else if eq .name "SLIPWAY_LISTENER_KEY" }}{{ $fullname }}-agent-values
{{- else }}{{ $fullname }}-values
{{- end }}
{{- end }}

{{/* Takes a dict: root, names, and hook if the Secrets of this chart do not exist yet. Gives entries of `env`. */}}
{{- define "slipway.secretEnv" -}}
{{- $all := include "slipway.secrets" .root | fromYaml }}
{{- range $name := .names }}
{{- with index $all $name }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ include "slipway.secretName" (dict "root" $.root "name" $name "secret" . "hook" $.hook) }}
      key: {{ default $name .key }}
{{- end }}
{{- end }}
{{- end }}

{{/* The entries of a Secret. Takes a dict: root, names. */}}
{{- define "slipway.secretEntries" -}}
{{- $all := include "slipway.secrets" .root | fromYaml }}
{{- range $name := .names }}
{{- with index $all $name }}
{{- if not .existingSecret }}
{{ $name }}: {{ .value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "slipway.apiSecretNames" -}}
{{- $all := include "slipway.secrets" . | fromYaml }}
{{- without (keys $all | sortAlpha) "DATABASE_OWNER_URL" "SLIPWAY_LISTENER_KEY" | toYaml }}
{{- end }}

{{- define "slipway.migrationSecretNames" -}}
{{- list "DATABASE_OWNER_URL" "DATABASE_URL" "DATABASE_SYSTEM_URL" "TRACES_CLICKHOUSE_URL" | toYaml }}
{{- end }}

{{- define "slipway.usesS3" -}}
{{- if .Values.settings.UPLOADS_S3_ENDPOINT }}true{{ end }}
{{- end }}

{{- define "slipway.usesUploadVolume" -}}
{{- if and .Values.uploads.volume.enabled (not (include "slipway.usesS3" .)) }}true{{ end }}
{{- end }}

{{- define "slipway.maxReplicas" -}}
{{- if .Values.api.autoscaling.enabled }}{{ .Values.api.autoscaling.maxReplicas }}{{ else }}{{ .Values.api.replicas }}{{ end }}
{{- end }}

{{- define "slipway.serviceAccountName" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "slipway.fullname" . }}
{{- else }}default
{{- end }}
{{- end }}

{{/* The host of PUBLIC_URL, without its port. */}}
{{- define "slipway.publicHost" -}}
{{- (urlParse (default "" .Values.settings.PUBLIC_URL)).host | splitList ":" | first }}
{{- end }}

{{/* For pods that are not Postgres'. Without podSecurity.user the cluster chooses one, as OpenShift does. */}}
{{- define "slipway.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.podSecurity.user }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "slipway.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "slipway.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The rules for the nodes of a pod. Takes the values of the component. */}}
{{- define "slipway.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "slipway.hasCertificates" -}}
{{- if or .Values.trustedCertificates.configMap .Values.trustedCertificates.secret }}true{{ end }}
{{- end }}

{{- define "slipway.certificateEnv" -}}
{{- if include "slipway.hasCertificates" . }}
- name: NODE_EXTRA_CA_CERTS
  value: /etc/slipway/certificates/{{ .Values.trustedCertificates.key }}
{{- end }}
{{- end }}

{{- define "slipway.certificateMount" -}}
{{- if include "slipway.hasCertificates" . }}
- {name: certificates, mountPath: /etc/slipway/certificates, readOnly: true}
{{- end }}
{{- end }}

{{- define "slipway.certificateVolume" -}}
{{- if include "slipway.hasCertificates" . }}
- name: certificates
  {{- with .Values.trustedCertificates.configMap }}
  configMap: {name: {{ . }}}
  {{- end }}
  {{- with .Values.trustedCertificates.secret }}
  secret: {secretName: {{ . }}}
  {{- end }}
{{- end }}
{{- end }}
