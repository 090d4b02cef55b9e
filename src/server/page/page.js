// page.js - what the server says of itself, twice a second: /v2/symphony/state, timeline and requests. No library.
"use strict";
const $ = id => document.getElementById(id);
const HISTORY_S = 120, LANES = 12, LANE_BOXES = 300, LANES_S = 5, LANES_LATE_S = 1.6, LANE = 18;
const still = matchMedia("(prefers-reduced-motion: reduce)");
let token = sessionStorage.getItem("symphony-token") || "", state = null, paused = false, sort = "bad", chosen = "", drawn = "";
let stop = null;          // ends the stream that is read
let history = [];         // {t, good, late, bad, model, p50, p99, slo}
let before = null;        // totals at the event before
let skew = 0;             // the page's clock less the server's, in seconds
let boxes = new Map();    // of lanes: start and row -> event
let lanesKept = true;

// ---- asking ----

const headers = () => token ? {Authorization: "Bearer " + token} : {};

async function ask(path, signal) {
    const answer = await fetch(path, {headers: headers(), signal, cache: "no-store"});
    if (answer.status === 401) {
        $("ask").hidden = false;
        throw new Error("a token is needed");
    }
    if (!answer.ok)
        throw Object.assign(new Error(await answer.text()), {status: answer.status});
    return answer;
}

function linkSay(text, lost) {
    $("link").textContent = text;
    $("link").className = lost ? "lost" : "";
}

// Reads events until the query changes or the server is lost; then begins again.
async function listen() {
    for (;;) {
        const end = stop = new AbortController();
        const query = new URLSearchParams({stream: "1", sort, limit: "100", accelerators: String(LANES), first: $("first").value || "0"});
        if ($("filter").value)
            query.set("model", $("filter").value);
        try {
            const answer = await ask("v2/symphony/state?" + query, end.signal);
            const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
            $("ask").hidden = true;
            linkSay("live", false);
            for (let heard = "";;) {
                const {value, done} = await reader.read();
                if (done)
                    break;
                heard += value;
                const last = heard.lastIndexOf("\n\n");
                if (last < 0)
                    continue;
                const event = heard.slice(heard.lastIndexOf("data: ", last) + 6, last);
                heard = heard.slice(last + 2);
                show(JSON.parse(event));
            }
        } catch (error) {
            if (!end.signal.aborted)
                linkSay("not connected: " + error.message, true);
        }
        if (!end.signal.aborted)
            await new Promise(go => { const t = setTimeout(go, 2000); end.signal.onabort = () => { clearTimeout(t); go(); }; });
    }
}

const again = () => stop && stop.abort();

// ---- words and tables ----

function digits(value) {
    if (value === undefined || value === null)
        return "-";
    if (value >= 1e6)
        return (value / 1e6).toPrecision(3) + "M";
    return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : String(+value.toPrecision(3));
}

function duration(s) {
    return s < 60 ? Math.floor(s) + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 86400 ?
        Math.floor(s / 3600) + " h " + Math.floor(s / 60) % 60 + " min" : Math.floor(s / 86400) + " d " + Math.floor(s / 3600) % 24 + " h";
}

const ms = value => value === undefined ? "-" : digits(value) + " ms";

// Rows that stay keep their elements, so that the focus and what is read aloud stay, too.
function rows(body, list, key, cells) {
    const old = new Map([...body.children].map(row => [row.dataset.key, row]));
    list.forEach((one, at) => {
        const name = key(one);
        let row = old.get(name);
        old.delete(name);
        if (!row) {
            row = document.createElement("tr");
            row.dataset.key = name;
        }
        if (body.children[at] !== row)
            body.insertBefore(row, body.children[at] || null);
        cells(one).forEach((cell, c) => {
            let td = row.children[c];
            if (!td) {
                td = row.appendChild(document.createElement("td"));
                td.className = cell.n ? "n" : "";
                if (cell.go) {
                    td.appendChild(document.createElement("button")).type = "button";
                    td.firstChild.addEventListener("click", () => row.go());
                }
            }
            if (cell.go)
                row.go = cell.go;
            const to = cell.go ? td.firstChild : td;
            if (to.textContent !== String(cell.text))
                to.textContent = cell.text;
        });
        row.className = one.rowClass || "";
    });
    old.forEach(row => row.remove());
}

const columns = [
    {name: "model", sort: "name", text: m => m.name},
    {name: "state", text: m => m.reason ? m.state + ": " + m.reason : m.state},
    {name: "rate/s", sort: "rate", n: 1, text: m => digits(m.rate)},
    {name: "good", sort: "bad", n: 1, text: m => m.rate > 0 ? (100 * m.good / m.rate).toFixed(1) + " %" : "-"},
    {name: "late/s", sort: "late", n: 1, text: m => digits(m.late)},
    {name: "refused/s", sort: "refused", n: 1, text: m => digits(m.refused)},
    {name: "refused for", text: m => Object.entries(m.refused_by || {}).filter(r => r[1].per_s > 0)
        .sort((a, b) => b[1].per_s - a[1].per_s).map(r => r[0].replaceAll("_", " ")).join(", ") || "-"},
    {name: "queued", sort: "queued", n: 1, text: m => digits(m.queued)},
    {name: "batch", sort: "batch", n: 1, text: m => digits(m.batch)},
    {name: "run", n: 1, text: m => ms(m.run_ms)},
    {name: "busy", sort: "busy", n: 1, text: m => digits(m.busy)},
    {name: "queue 50 %, 99 %", n: 1, text: m => m.queue_ms ? digits(m.queue_ms.p50) + ", " + ms(m.queue_ms.p99) : "-"},
    {name: "latency 50 %, 99 %", n: 1, text: m => m.latency_ms ? digits(m.latency_ms.p50) + ", " + ms(m.latency_ms.p99) : "-"},
    {name: "SLO", n: 1, text: m => ms(m.slo_ms)},
    {name: "requests", n: 1, text: m => m.totals.requests},
    {name: "in time", n: 1, text: m => m.totals.in_time},
    {name: "late", n: 1, text: m => m.totals.late},
    {name: "refused", n: 1, text: m => m.totals.refused},
];

function headMake() {
    for (const column of columns) {
        const th = $("models").tHead.rows[0].appendChild(document.createElement("th"));
        th.className = column.n ? "n" : "";
        th.scope = "col";
        if (!column.sort) {
            th.textContent = column.name;
            continue;
        }
        const button = th.appendChild(document.createElement("button"));
        button.type = "button";
        button.textContent = column.name;
        button.addEventListener("click", () => { sort = column.sort; headSort(); again(); });
    }
    headSort();
}

function headSort() {
    columns.forEach((column, c) => {
        const th = $("models").tHead.rows[0].cells[c];
        if (column.sort === sort)
            th.setAttribute("aria-sort", sort === "name" ? "ascending" : "descending");
        else
            th.removeAttribute("aria-sort");
    });
}

function card(id, text, grade) {
    $(id).lastElementChild.textContent = text;
    $(id).className = grade;
}

// ---- an event ----

// The model whose latency is drawn: the chosen one; else the same as before, though others come first in the table now.
function modelShown() {
    const m = state.models.find(m => m.name === (chosen || drawn)) || state.models.find(m => m.latency_ms) || state.models[0];
    drawn = m ? m.name : "";
    return m;
}

function show(now) {
    skew = performance.now() / 1000 - now.uptime_s;
    if (paused)
        return;
    state = now;
    historyAdd(now);
    if (document.hidden)
        return;
    const all = now.all, share = all.rate > 0 ? all.good / all.rate : 1, advice = now.advice;
    $("about").textContent = `${now.version}, policy ${now.policy}, ${now.state.replace("_", " ")}, up ${duration(now.uptime_s)}` +
        (now.in_flight === undefined ? "" : `, ${now.connections} connections, ${now.in_flight} requests in flight`);
    card("card-good", all.rate > 0 ? (100 * share).toFixed(1) + " %" : "-", share < .99 ? "bad" : "ok");
    card("card-rate", digits(all.rate), "");
    card("card-late", digits(all.late), all.late > .01 * all.rate ? "warn" : "");
    card("card-refused", digits(all.refused), all.refused > .01 * all.rate ? "bad" : "");
    card("card-failed", digits(all.failed), all.failed > 0 ? "bad" : "");
    card("card-need", advice ? `${digits(advice.needed)}, ${advice.serving}` : "-", advice && advice.needed > advice.serving ? "bad" : "");
    for (const m of now.models) {
        const good = m.rate > 0 ? m.good / m.rate : 1;
        m.rowClass = m.state !== "ready" || good < .99 ? "bad" : m.rate === 0 ? "idle" :
            m.slo_ms && m.latency_ms && m.latency_ms.p99 > .9 * m.slo_ms ? "warn" : "";
    }
    rows($("models").tBodies[0], now.models, m => m.name + "/" + m.version,
         m => columns.map((c, i) => i ? {text: c.text(m), n: c.n} : {text: m.name, go: () => modelChoose(m.name)}));
    $("count").textContent = now.models.length < now.models_matching ?
        `${now.models.length} of ${now.models_matching} shown, of ${now.models_count}` : `${now.models_count} in all`;
    accelerators(now);
    cluster(now.cluster);
    chartsDraw();
}

function modelChoose(name) {
    chosen = name;
    $("bad-model").value = name;
    history.forEach(h => { h.p50 = h.p99 = undefined; });
    requestsAsk();
}

function accelerators(now) {
    $("lanes-section").hidden = now.accelerators_count === 0;
    const types = now.types.map(t => `${t.type}: ${t.serving} of ${t.count} in service, ${t.running} run, ` +
        `${Math.round(100 * t.busy)} % busy, ${digits(t.batches_rate)} batches/s`);
    while ($("types").children.length > types.length)
        $("types").lastChild.remove();
    types.forEach((text, i) => {
        let row = $("types").children[i];
        if (!row) {
            row = $("types").appendChild(document.createElement("div"));
            row.append(document.createElement("meter"), document.createElement("span"));
        }
        row.firstChild.value = now.types[i].busy;
        row.firstChild.setAttribute("aria-label", now.types[i].type + " busy");
        row.lastChild.textContent = text;
    });
    rows($("accelerators").tBodies[0], now.accelerators, a => String(a.number), a => [
        {text: a.number, n: 1}, {text: a.type}, {text: a.state}, {text: Math.round(100 * a.busy) + " %", n: 1},
        {text: a.runs ? `${a.runs.model} (${a.runs.items})` : "-"}, {text: a.batches, n: 1},
        {text: a.memory_mib === undefined ? "-" : `${a.models} models, ${digits(a.memory_mib)} of ${digits(a.memory_max_mib)} MiB`}]);
}

let linkBytes = new Map();

function cluster(c) {
    $("links-section").hidden = !c;
    if (!c)
        return;
    $("leads").textContent = `This is a ${c.role}` + (c.leads === undefined ? c.connected ? ", connected" : ", not connected" :
        c.leads ? " that leads" : " that stands by") + ", term " + c.term + ".";
    const t = state.uptime_s, seen = new Map();
    rows($("links").tBodies[0], c.links, l => l.role + l.number + l.name, l => {
        const key = l.role + l.number + l.name, old = linkBytes.get(key) || {t: t - 1, in: l.bytes_in, out: l.bytes_out};
        const keep = t - old.t > 2 ? {t, in: l.bytes_in, out: l.bytes_out} : old, s = Math.max(t - old.t, .1);
        seen.set(key, keep);
        return [{text: l.role}, {text: l.name}, {text: l.round_trip_us === undefined ? "-" : digits(l.round_trip_us) + " us", n: 1},
                {text: l.clock_error_us === undefined ? "-" : digits(l.clock_error_us) + " us", n: 1},
                {text: digits((l.bytes_in - old.in) / s / 1e6) + " MB", n: 1}, {text: digits((l.bytes_out - old.out) / s / 1e6) + " MB", n: 1},
                {text: digits(l.late), n: 1}, {text: digits(l.lost), n: 1}];
    });
    linkBytes = seen;
}

// ---- charts ----

function historyAdd(now) {
    const totals = now.all.totals, t = now.uptime_s, m = modelShown() || {};
    if (before && t > before.t && totals.requests >= before.requests) {
        const s = t - before.t;
        history.push({t, good: (totals.in_time - before.in_time) / s, late: (totals.late - before.late) / s,
                      bad: (totals.refused + totals.failed - before.refused - before.failed) / s,
                      model: m.name, p50: m.latency_ms && m.latency_ms.p50, p99: m.latency_ms && m.latency_ms.p99, slo: m.slo_ms});
    } else {
        history = [];
    }
    before = {t, ...totals};
    while (history.length && history[0].t < t - HISTORY_S)
        history.shift();
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name);

// A canvas as large as it is shown, in the screen's own pixels.
function canvas(id, height) {
    const c = $(id), scale = devicePixelRatio || 1;
    if (height)
        c.style.height = height + "px";
    const width = c.clientWidth, tall = height || c.clientHeight;
    if (c.width !== Math.round(width * scale) || c.height !== Math.round(tall * scale)) {
        c.width = Math.round(width * scale);
        c.height = Math.round(tall * scale);
    }
    const g = c.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, tall);
    g.font = "11px system-ui, sans-serif";
    return {g, width, height: tall};
}

function nice(most) {
    const power = 10 ** Math.floor(Math.log10(most || 1));
    return [1, 2, 5, 10].find(f => f * power >= most) * power;
}

// lines: {of: value of an entry, colour}; `stacked`: each upon the one before, filled.
function chart(id, unit, lines, stacked) {
    const {g, width, height} = canvas(id), left = 44, bottom = height - 16, end = state.uptime_s;
    const value = h => stacked ? lines.reduce((sum, l) => sum + (l.of(h) || 0), 0) : Math.max(...lines.map(l => l.of(h) || 0));
    const most = nice(Math.max(1e-3, ...history.map(value)));
    const x = t => left + (width - left) * (1 - (end - t) / HISTORY_S), y = v => bottom - (bottom - 6) * v / most;
    g.fillStyle = colour("dim");
    g.strokeStyle = colour("line");
    for (let i = 0; i <= 2; i++) {
        g.fillText(digits(most * i / 2) + (i === 2 ? " " + unit : ""), 0, y(most * i / 2) + 4);
        g.beginPath();
        g.moveTo(left, y(most * i / 2));
        g.lineTo(width, y(most * i / 2));
        g.stroke();
    }
    g.fillText("2 min ago", left, height - 2);
    g.fillText("now", width - 24, height - 2);
    const sums = history.map(() => 0);
    for (const line of lines) {
        const low = sums.slice();
        g.strokeStyle = g.fillStyle = colour(line.colour);
        g.lineWidth = 1.5;
        g.beginPath();
        let drawn = false;
        history.forEach((h, i) => {
            const v = line.of(h);
            if (v === undefined)
                return;
            sums[i] += stacked ? v : 0;
            const at = y(stacked ? sums[i] : v);
            if (drawn)
                g.lineTo(x(h.t), at);
            else
                g.moveTo(x(h.t), at);
            drawn = true;
        });
        if (stacked && drawn) {
            for (let i = history.length - 1; i >= 0; i--)
                g.lineTo(x(history[i].t), y(low[i]));
            g.globalAlpha = .55;
            g.fill();
            g.globalAlpha = 1;
        } else {
            g.stroke();
        }
        g.lineWidth = 1;
    }
}

function chartsDraw() {
    const last = history[history.length - 1] || {}, m = modelShown();
    chart("goodput", "/s", [{of: h => h.good, colour: "good"}, {of: h => h.late, colour: "late"}, {of: h => h.bad, colour: "bad"}], true);
    const mine = name => h => h.model === drawn ? h[name] : undefined;
    chart("latency", "ms", [{of: mine("slo"), colour: "slo"}, {of: mine("p50"), colour: "good"}, {of: mine("p99"), colour: "late"}], false);
    $("latency-of").textContent = m ? m.name : "-";
    $("goodput").setAttribute("aria-label", `requests per second now: ${digits(last.good)} good, ${digits(last.late)} late, ${digits(last.bad)} refused or failed`);
    $("latency").setAttribute("aria-label", m ? `latency of ${m.name}: half within ${ms(last.p50)}, 99 % within ${ms(last.p99)}, SLO ${ms(last.slo)}` : "no model");
}

// ---- lanes ----

function hue(name) {
    let h = 7;
    for (const c of name)
        h = (h * 31 + c.charCodeAt(0)) % 360;
    return h * 137 % 360;
}

async function lanesAsk() {
    if (state && lanesKept && !paused && !document.hidden && state.accelerators_count > 0) {
        try {
            const first = +$("first").value || 0;
            const answer = await ask(`v2/symphony/timeline?seconds=2&limit=${LANE_BOXES}&first=${first}&accelerators=${LANES}`);
            for (const e of (await answer.json()).traceEvents)
                if (e.ph === "X" && e.cat !== "load" && !(e.args && e.args.end === "running"))
                    boxes.set(e.tid + "/" + e.ts, e);
            const old = (performance.now() / 1000 - skew - LANES_S - LANES_LATE_S - 1) * 1e6;
            for (const [key, e] of boxes)
                if (e.ts + e.dur < old)
                    boxes.delete(key);
        } catch (error) {
            lanesKept = error.status !== 404;
        }
    }
    setTimeout(lanesAsk, 1000);
}

const idleShade = {"nothing queued": 0, "waits for company": .45, "no model here": .8, "hand-over": .2};

function lanesDraw() {
    if (state && !document.hidden && !paused && state.accelerators_count > 0) {
        const first = +$("first").value || 0, count = Math.min(LANES, Math.max(state.accelerators_count - first, 0));
        const {g, width, height} = canvas("lanes", count * LANE + 16), left = 56;
        const right = performance.now() / 1000 - skew - LANES_LATE_S, dark = matchMedia("(prefers-color-scheme: dark)").matches;
        const x = us => left + (width - left) * (1 - (right - us / 1e6) / LANES_S), seen = new Map();
        g.save();
        g.beginPath();
        g.rect(left, 0, width - left, height);
        g.clip();
        for (const e of boxes.values()) {
            const lane = e.tid - first, from = x(e.ts), to = x(e.ts + e.dur);
            if (lane < 0 || lane >= count || to < left || from > width)
                continue;
            if (e.cat === "idle") {
                g.fillStyle = colour("dim");
                g.globalAlpha = idleShade[e.name] || 0;
                g.fillRect(from, lane * LANE + LANE - 6, to - from, 3);
                g.globalAlpha = 1;
                continue;
            }
            const model = e.args.model;
            g.fillStyle = e.args.end ? colour("bad") : `hsl(${hue(model)} 55% ${dark ? 45 : 62}%)`;
            g.fillRect(from, lane * LANE + 2, Math.max(to - from - .5, .5), LANE - 4);
            seen.set(model, g.fillStyle);
            if (to - from > 26) {
                g.fillStyle = dark ? "#fff" : "#000";
                g.fillText(String(e.args.size), Math.max(from, left) + 3, lane * LANE + 13);
            }
        }
        g.restore();
        g.fillStyle = colour("dim");
        for (let i = 0; i < count; i++)
            g.fillText(String(first + i), 4, i * LANE + 13);
        g.fillText(LANES_S + " s ago", left, height - 3);
        g.fillText("now", width - 24, height - 3);
        legend(seen);
    }
    setTimeout(() => requestAnimationFrame(lanesDraw), still.matches ? 1000 : 50);
}

function legend(seen) {
    const names = [...seen.keys()].sort().slice(0, 12), key = names.join();
    if ($("legend").dataset.key === key)
        return;
    $("legend").dataset.key = key;
    $("legend").replaceChildren(...names.map(name => {
        const swatch = document.createElement("span"), box = document.createElement("i");
        swatch.className = "swatch";
        box.style.background = seen.get(name);
        swatch.append(box, name);
        return swatch;
    }));
    $("lanes").setAttribute("aria-label", "the accelerators have run in the last seconds: " + (names.join(", ") || "nothing") + "; as a table below");
}

// ---- requests ----

let asked = 0;

async function requestsAsk() {
    const query = new URLSearchParams({state: $("bad-state").value, limit: "50"}), mine = ++asked;
    for (const [key, id] of [["model", "bad-model"], ["id", "bad-id"]])
        if ($(id).value)
            query.set(key, $(id).value);
    try {
        const list = (await (await ask("v2/symphony/requests?" + query)).json()).requests;
        if (mine !== asked || paused)
            return;
        rows($("bad").tBodies[0], list, r => r.id + r.at, r => [
            {text: r.at.slice(11, 23)}, {text: r.model || "-"}, {text: ms(r.took_ms), n: 1}, {text: ms(r.deadline_ms), n: 1},
            {text: r.why || (r.reason || "").replaceAll("_", " ") || "-"}, {text: r.id, go: () => trailShow(r)}]);
    } catch (error) {
        $("bad-section").hidden = error.status === 404;
    }
}

function trailShow(r) {
    $("trail-title").textContent = `${r.model || "a model that is gone"}: ${r.state.replace("_", " ")}, answered ${r.status}`;
    $("trail-why").textContent = r.why || (r.reason || "").replaceAll("_", " ");
    $("trail-help").textContent = r.help || "";
    rows($("trail").querySelector("tbody"), Object.entries(r).filter(e => !["why", "help"].includes(e[0])), e => e[0],
         e => [{text: e[0].replaceAll("_", " ").replace(/ ms$/, " (ms)")}, {text: e[1]}]);
    $("trail").showModal();
    const parts = [["request", r.request_ms, "slo"], ["inputs", r.prepare_ms, "dim"], ["company", r.company_ms, "late"],
                   ["accelerator", r.accelerator_ms, "bad"], ["run", r.run_ms, "good"], ["answer", r.reply_ms, "focus"]].filter(p => p[1] > 0);
    const {g, width, height} = canvas("trail-bar"), whole = Math.max(r.took_ms, parts.reduce((sum, p) => sum + p[1], 0), 1e-6);
    let at = 0;
    for (const [name, part, shade] of parts) {
        const wide = width * part / whole;
        g.fillStyle = colour(shade);
        g.fillRect(at, 0, wide, height);
        g.fillStyle = colour("back");
        if (wide > 70)
            g.fillText(name + " " + digits(part), at + 4, height / 2 + 4);
        at += wide;
    }
    $("trail-bar").hidden = parts.length === 0;
    $("trail-bar").setAttribute("aria-label", "where its time went: " + parts.map(p => `${p[0]} ${ms(p[1])}`).join(", "));
}

// ---- begin ----

function pause() {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    $("pause").textContent = paused ? "Go on" : "Pause";
}

headMake();
$("pause").addEventListener("click", pause);
$("ask").addEventListener("submit", event => {
    event.preventDefault();
    sessionStorage.setItem("symphony-token", token = $("token").value);
    again();
    requestsAsk();
});
for (const id of ["filter", "first"])
    $(id).addEventListener("input", again);
for (const id of ["bad-state", "bad-model", "bad-id"])
    $(id).addEventListener("input", requestsAsk);
addEventListener("resize", () => state && chartsDraw());
setInterval(() => paused || document.hidden || requestsAsk(), 2000);
listen();
lanesAsk();
lanesDraw();
requestsAsk();
