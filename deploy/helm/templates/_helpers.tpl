{{/* Those that take a role's name are given (dict "root" $ "role" NAME). */}}

{{/* The labels of a role's objects, by which its pods are found, too. */}}
{{- define "symphony.labels" -}}
app.kubernetes.io/name: symphony
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{/* Of the pods of any role. */}}
{{- define "symphony.pod" -}}
automountServiceAccountToken: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch # Always would let the group write kept profiles, which are then not used
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "symphony.labels" $ | nindent 8 }}
  {{- end }}
{{- end }}

{{/* Of any container. */}}
{{- define "symphony.restricted" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* ---- pods with accelerators: servers and backends ---- */}}

{{- define "symphony.accelerators.pod" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.models.copy }}
initContainers:
  - name: models
    image: {{ .image }}
    {{- with .command }}
    command: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .args }}
    args: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .env }}
    env: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .envFrom }}
    envFrom: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- include "symphony.restricted" . | nindent 4 }}
    volumeMounts:
      - name: models
        mountPath: /srv/models
      - name: tmp
        mountPath: /tmp
{{- end }}
{{- end }}

{{- define "symphony.accelerators.args" -}}
- --repository=/srv/models
- --cache-dir=/var/cache/symphony
- --accelerators={{ .Values.accelerators.kind }}:{{ .Values.accelerators.count }}
- --pin=none # another pod may have the same cores
{{- end }}

{{- define "symphony.accelerators.resources" -}}
{{- $gpus := eq .Values.accelerators.kind "cuda" -}}
resources:
  requests:
    cpu: {{ .Values.resources.cpu }}
    memory: {{ .Values.resources.memory }}
    {{- if $gpus }}
    nvidia.com/gpu: {{ .Values.accelerators.count }}
    {{- end }}
  limits:
    memory: {{ .Values.resources.memory }}
    {{- if $gpus }}
    nvidia.com/gpu: {{ .Values.accelerators.count }}
    {{- end }}
{{- end }}

{{- define "symphony.accelerators.mounts" -}}
- name: models
  mountPath: /srv/models
  readOnly: true
- name: cache
  mountPath: /var/cache/symphony
- name: tmp
  mountPath: /tmp
{{- end }}

{{- define "symphony.accelerators.volumes" -}}
- name: models
  {{- with .Values.models }}
  {{- if .claim }}
  persistentVolumeClaim:
    claimName: {{ .claim }}
    readOnly: true # else the group of the pod may write kept profiles, which are then not used
  {{- else if .image }}
  image:
    reference: {{ .image }}
  {{- else }}
  emptyDir: {}
  {{- end }}
  {{- end }}
- name: cache # profiles and optimised copies
  {{- with .Values.cacheClaim }}
  persistentVolumeClaim:
    claimName: {{ . }}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: tmp
  emptyDir: {}
{{- end }}

{{/* ---- pods that clients connect to: servers and frontends ---- */}}

{{/* Who they are. */}}
{{- define "symphony.clients.role" -}}
{{ ternary "server" "frontend" (eq .Values.mode "server") }}
{{- end }}

{{/* The Secret with certificates of (dict "root" $ "use" "clients" or "links"), or nothing. */}}
{{- define "symphony.tls" -}}
{{- $one := index .root.Values .use -}}
{{ $one.tlsSecret | default (ternary (printf "%s-%s" .root.Release.Name .use) "" (not (empty $one.issuer))) }}
{{- end }}

{{- define "symphony.clients.args" -}}
- --drain-grace=5 # as long as endpoints take to forget a pod that ends
- --drain-timeout={{ .Values.drainSeconds }}
{{- if include "symphony.tls" (dict "root" . "use" "clients") }}
- --tls-cert=/etc/symphony/clients/tls.crt
- --tls-key=/etc/symphony/clients/tls.key
{{- end }}
{{- if .Values.clients.verify }}
- --tls-client-ca=/etc/symphony/clients/ca.crt
{{- end }}
{{- if .Values.clients.tokenSecret }}
- --auth-token-file=/etc/symphony/clients/token
{{- end }}
{{- end }}

{{- define "symphony.clients.ports" -}}
- name: http
  containerPort: 8000
- name: grpc
  containerPort: 8001
- name: metrics
  containerPort: 8002
{{- end }}

{{/* The port that probes ask: they have no certificate. */}}
{{- define "symphony.clients.probed" -}}
{{ ternary "metrics" "http" (not (empty (include "symphony.tls" (dict "root" . "use" "clients")))) }}
{{- end }}

{{- define "symphony.clients.mounts" -}}
{{- if include "symphony.clients.volumes" . -}}
- name: clients
  mountPath: /etc/symphony/clients
  readOnly: true
{{- end }}
{{- end }}

{{- define "symphony.clients.volumes" -}}
{{- $tls := include "symphony.tls" (dict "root" . "use" "clients") }}
{{- $token := .Values.clients.tokenSecret }}
{{- if or $tls $token -}}
- name: clients
  projected:
    sources:
      {{- with $tls }}
      - secret:
          name: {{ . }}
      {{- end }}
      {{- with $token }}
      - secret:
          name: {{ . }}
          items: [{key: token, path: token}]
      {{- end }}
{{- end }}
{{- end }}

{{/* ---- members of a cluster ---- */}}

{{/* How it finds the schedulers. */}}
{{- define "symphony.links.found" -}}
{{- if .Values.etcd -}}
--registry={{ .Values.etcd }}
{{- else -}}
--join={{ .Release.Name }}-scheduler:7700
{{- end }}
{{- end }}

{{- define "symphony.links.args" -}}
- --name=$(POD_NAME)
- --cluster-token-file=/etc/symphony/links/token
{{- if include "symphony.tls" (dict "root" . "use" "links") }}
- --cluster-cert=/etc/symphony/links/tls.crt
- --cluster-key=/etc/symphony/links/tls.key
- --cluster-ca=/etc/symphony/links/ca.crt
{{- end }}
- --log-format=json
{{- end }}

{{- define "symphony.links.env" -}}
env:
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
{{- end }}

{{- define "symphony.links.mounts" -}}
- name: links
  mountPath: /etc/symphony/links
  readOnly: true
{{- end }}

{{- define "symphony.links.volumes" -}}
- name: links
  projected:
    sources:
      - secret:
          name: {{ .Values.links.tokenSecret }}
          items: [{key: token, path: token}]
      {{- with include "symphony.tls" (dict "root" . "use" "links") }}
      - secret:
          name: {{ . }}
      {{- end }}
{{- end }}
