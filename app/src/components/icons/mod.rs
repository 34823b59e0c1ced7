//! Icons, drawn by the Lucide project (ISC licence, part of them MIT from Feather: see `LICENSE-lucide.txt` beside this file).

use leptos::prelude::*;

/// An icon of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icon {
    /// `box`
    Box,
    /// `layers`
    Layers,
    /// `plus`
    Plus,
    /// `search`
    Search,
    /// `ellipsis`
    Ellipsis,
    /// `pencil`
    Pencil,
    /// `copy`
    Copy,
    /// `flask-conical`
    FlaskConical,
    /// `trash-2`
    Trash2,
    /// `x`
    X,
    /// `check`
    Check,
    /// `chevron-right`
    ChevronRight,
    /// `chevron-down`
    ChevronDown,
    /// `chevron-up`
    ChevronUp,
    /// `arrow-up-down`
    ArrowUpDown,
    /// `arrow-up`
    ArrowUp,
    /// `arrow-down`
    ArrowDown,
    /// `circle-check`
    CircleCheck,
    /// `circle-x`
    CircleX,
    /// `triangle-alert`
    TriangleAlert,
    /// `info`
    Info,
    /// `circle-dashed`
    CircleDashed,
    /// `key-round`
    KeyRound,
    /// `users`
    Users,
    /// `server`
    Server,
    /// `scroll-text`
    ScrollText,
    /// `log-out`
    LogOut,
    /// `sun`
    Sun,
    /// `moon`
    Moon,
    /// `monitor`
    Monitor,
    /// `menu`
    Menu,
    /// `keyboard`
    Keyboard,
    /// `terminal`
    Terminal,
    /// `circle-stop`
    CircleStop,
    /// `globe`
    Globe,
    /// `ban`
    Ban,
    /// `shield`
    Shield,
    /// `cpu`
    Cpu,
    /// `hard-drive`
    HardDrive,
    /// `braces`
    Braces,
    /// `file-terminal`
    FileTerminal,
    /// `clock`
    Clock,
    /// `history`
    History,
    /// `grip-vertical`
    GripVertical,
    /// `rotate-cw`
    RotateCw,
    /// `code-xml`
    CodeXml,
    /// `chart-spline`
    ChartSpline,
    /// `mouse-pointer-2`
    MousePointer2,
    /// `zap`
    Zap,
    /// `user`
    User,
    /// `arrow-down-to-line`
    ArrowDownToLine,
    /// `lock`
    Lock,
    /// `link`
    Link,
    /// `play`
    Play,
    /// `download`
    Download,
    /// `wrap-text`
    WrapText,
    /// `git-branch`
    GitBranch,
    /// `package`
    Package,
}

impl Icon {
    /// All of them, for the style guide.
    #[cfg(debug_assertions)]
    pub const ALL: [Self; 58] = [
        Self::Box,
        Self::Layers,
        Self::Plus,
        Self::Search,
        Self::Ellipsis,
        Self::Pencil,
        Self::Copy,
        Self::FlaskConical,
        Self::Trash2,
        Self::X,
        Self::Check,
        Self::ChevronRight,
        Self::ChevronDown,
        Self::ChevronUp,
        Self::ArrowUpDown,
        Self::ArrowUp,
        Self::ArrowDown,
        Self::CircleCheck,
        Self::CircleX,
        Self::TriangleAlert,
        Self::Info,
        Self::CircleDashed,
        Self::KeyRound,
        Self::Users,
        Self::Server,
        Self::ScrollText,
        Self::LogOut,
        Self::Sun,
        Self::Moon,
        Self::Monitor,
        Self::Menu,
        Self::Keyboard,
        Self::Terminal,
        Self::CircleStop,
        Self::Globe,
        Self::Ban,
        Self::Shield,
        Self::Cpu,
        Self::HardDrive,
        Self::Braces,
        Self::FileTerminal,
        Self::Clock,
        Self::History,
        Self::GripVertical,
        Self::RotateCw,
        Self::CodeXml,
        Self::ChartSpline,
        Self::MousePointer2,
        Self::Zap,
        Self::User,
        Self::ArrowDownToLine,
        Self::Lock,
        Self::Link,
        Self::Play,
        Self::Download,
        Self::WrapText,
        Self::GitBranch,
        Self::Package,
    ];

    const fn body(self) -> &'static str {
        match self {
            Self::Box => {
                r#"<path d="M21 8a2 2 0 0 0-1-1.73l-7-4a2 2 0 0 0-2 0l-7 4A2 2 0 0 0 3 8v8a2 2 0 0 0 1 1.73l7 4a2 2 0 0 0 2 0l7-4A2 2 0 0 0 21 16Z"/><path d="m3.3 7 8.7 5 8.7-5"/><path d="M12 22V12"/>"#
            }
            Self::Layers => {
                r#"<path d="M12.83 2.18a2 2 0 0 0-1.66 0L2.6 6.08a1 1 0 0 0 0 1.83l8.58 3.91a2 2 0 0 0 1.66 0l8.58-3.9a1 1 0 0 0 0-1.83z"/><path d="M2 12a1 1 0 0 0 .58.91l8.6 3.91a2 2 0 0 0 1.65 0l8.58-3.9A1 1 0 0 0 22 12"/><path d="M2 17a1 1 0 0 0 .58.91l8.6 3.91a2 2 0 0 0 1.65 0l8.58-3.9A1 1 0 0 0 22 17"/>"#
            }
            Self::Plus => r#"<path d="M5 12h14"/><path d="M12 5v14"/>"#,
            Self::Search => r#"<path d="m21 21-4.34-4.34"/><circle cx="11" cy="11" r="8"/>"#,
            Self::Ellipsis => {
                r#"<circle cx="12" cy="12" r="1"/><circle cx="19" cy="12" r="1"/><circle cx="5" cy="12" r="1"/>"#
            }
            Self::Pencil => {
                r#"<path d="M21.174 6.812a1 1 0 0 0-3.986-3.987L3.842 16.174a2 2 0 0 0-.5.83l-1.321 4.352a.5.5 0 0 0 .623.622l4.353-1.32a2 2 0 0 0 .83-.497z"/><path d="m15 5 4 4"/>"#
            }
            Self::Copy => {
                r#"<rect width="14" height="14" x="8" y="8" rx="2" ry="2"/><path d="M4 16c-1.1 0-2-.9-2-2V4c0-1.1.9-2 2-2h10c1.1 0 2 .9 2 2"/>"#
            }
            Self::FlaskConical => {
                r#"<path d="M14 2v6a2 2 0 0 0 .245.96l5.51 10.08A2 2 0 0 1 18 22H6a2 2 0 0 1-1.755-2.96l5.51-10.08A2 2 0 0 0 10 8V2"/><path d="M6.453 15h11.094"/><path d="M8.5 2h7"/>"#
            }
            Self::Trash2 => {
                r#"<path d="M10 11v6"/><path d="M14 11v6"/><path d="M19 6v14a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V6"/><path d="M3 6h18"/><path d="M8 6V4a2 2 0 0 1 2-2h4a2 2 0 0 1 2 2v2"/>"#
            }
            Self::X => r#"<path d="M18 6 6 18"/><path d="m6 6 12 12"/>"#,
            Self::Check => r#"<path d="M20 6 9 17l-5-5"/>"#,
            Self::ChevronRight => r#"<path d="m9 18 6-6-6-6"/>"#,
            Self::ChevronDown => r#"<path d="m6 9 6 6 6-6"/>"#,
            Self::ChevronUp => r#"<path d="m18 15-6-6-6 6"/>"#,
            Self::ArrowUpDown => {
                r#"<path d="m21 16-4 4-4-4"/><path d="M17 20V4"/><path d="m3 8 4-4 4 4"/><path d="M7 4v16"/>"#
            }
            Self::ArrowUp => r#"<path d="m5 12 7-7 7 7"/><path d="M12 19V5"/>"#,
            Self::ArrowDown => r#"<path d="M12 5v14"/><path d="m19 12-7 7-7-7"/>"#,
            Self::CircleCheck => {
                r#"<circle cx="12" cy="12" r="10"/><path d="m16 9-5.5 5.5L8 12"/>"#
            }
            Self::CircleX => {
                r#"<circle cx="12" cy="12" r="10"/><path d="m15 9-6 6"/><path d="m9 9 6 6"/>"#
            }
            Self::TriangleAlert => {
                r#"<path d="m21.73 18-8-14a2 2 0 0 0-3.48 0l-8 14A2 2 0 0 0 4 21h16a2 2 0 0 0 1.73-3"/><path d="M12 9v4"/><path d="M12 17h.01"/>"#
            }
            Self::Info => {
                r#"<circle cx="12" cy="12" r="10"/><path d="M12 16v-4"/><path d="M12 8h.01"/>"#
            }
            Self::CircleDashed => {
                r#"<path d="M10.1 2.182a10 10 0 0 1 3.8 0"/><path d="M13.9 21.818a10 10 0 0 1-3.8 0"/><path d="M17.609 3.721a10 10 0 0 1 2.69 2.7"/><path d="M2.182 13.9a10 10 0 0 1 0-3.8"/><path d="M20.279 17.609a10 10 0 0 1-2.7 2.69"/><path d="M21.818 10.1a10 10 0 0 1 0 3.8"/><path d="M3.721 6.391a10 10 0 0 1 2.7-2.69"/><path d="M6.391 20.279a10 10 0 0 1-2.69-2.7"/>"#
            }
            Self::KeyRound => {
                r#"<path d="M2.586 17.414A2 2 0 0 0 2 18.828V21a1 1 0 0 0 1 1h3a1 1 0 0 0 1-1v-1a1 1 0 0 1 1-1h1a1 1 0 0 0 1-1v-1a1 1 0 0 1 1-1h.172a2 2 0 0 0 1.414-.586l.814-.814a6.5 6.5 0 1 0-4-4z"/><circle cx="16.5" cy="7.5" r=".5" fill="currentColor"/>"#
            }
            Self::Users => {
                r#"<path d="M16 21v-2a4 4 0 0 0-4-4H6a4 4 0 0 0-4 4v2"/><path d="M16 3.128a4 4 0 0 1 0 7.744"/><path d="M22 21v-2a4 4 0 0 0-3-3.87"/><circle cx="9" cy="7" r="4"/>"#
            }
            Self::Server => {
                r#"<rect width="20" height="8" x="2" y="2" rx="2" ry="2"/><rect width="20" height="8" x="2" y="14" rx="2" ry="2"/><line x1="6" x2="6.01" y1="6" y2="6"/><line x1="6" x2="6.01" y1="18" y2="18"/>"#
            }
            Self::ScrollText => {
                r#"<path d="M15 12h-5"/><path d="M15 8h-5"/><path d="M19 17V5a2 2 0 0 0-2-2H4"/><path d="M8 21h12a2 2 0 0 0 2-2v-1a1 1 0 0 0-1-1H11a1 1 0 0 0-1 1v1a2 2 0 1 1-4 0V5a2 2 0 1 0-4 0v2a1 1 0 0 0 1 1h3"/>"#
            }
            Self::LogOut => {
                r#"<path d="m16 17 5-5-5-5"/><path d="M21 12H9"/><path d="M9 21H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2h4"/>"#
            }
            Self::Sun => {
                r#"<circle cx="12" cy="12" r="4"/><path d="M12 2v2"/><path d="M12 20v2"/><path d="m4.93 4.93 1.41 1.41"/><path d="m17.66 17.66 1.41 1.41"/><path d="M2 12h2"/><path d="M20 12h2"/><path d="m6.34 17.66-1.41 1.41"/><path d="m19.07 4.93-1.41 1.41"/>"#
            }
            Self::Moon => {
                r#"<path d="M20.985 12.486a9 9 0 1 1-9.473-9.472c.405-.022.617.46.402.803a6 6 0 0 0 8.268 8.268c.344-.215.825-.004.803.401"/>"#
            }
            Self::Monitor => {
                r#"<rect width="20" height="14" x="2" y="3" rx="2"/><line x1="8" x2="16" y1="21" y2="21"/><line x1="12" x2="12" y1="17" y2="21"/>"#
            }
            Self::Menu => r#"<path d="M4 5h16"/><path d="M4 12h16"/><path d="M4 19h16"/>"#,
            Self::Keyboard => {
                r#"<path d="M10 8h.01"/><path d="M12 12h.01"/><path d="M14 8h.01"/><path d="M16 12h.01"/><path d="M18 8h.01"/><path d="M6 8h.01"/><path d="M7 16h10"/><path d="M8 12h.01"/><rect width="20" height="16" x="2" y="4" rx="2"/>"#
            }
            Self::Terminal => r#"<path d="M12 19h8"/><path d="m4 17 6-6-6-6"/>"#,
            Self::CircleStop => {
                r#"<circle cx="12" cy="12" r="10"/><rect x="9" y="9" width="6" height="6" rx="1"/>"#
            }
            Self::Globe => {
                r#"<circle cx="12" cy="12" r="10"/><path d="M12 2a14.5 14.5 0 0 0 0 20 14.5 14.5 0 0 0 0-20"/><path d="M2 12h20"/>"#
            }
            Self::Ban => r#"<circle cx="12" cy="12" r="10"/><path d="M4.929 4.929 19.07 19.071"/>"#,
            Self::Shield => {
                r#"<path d="M20 13c0 5-3.5 7.5-7.66 8.95a1 1 0 0 1-.67-.01C7.5 20.5 4 18 4 13V6a1 1 0 0 1 1-1c2 0 4.5-1.2 6.24-2.72a1.17 1.17 0 0 1 1.52 0C14.51 3.81 17 5 19 5a1 1 0 0 1 1 1z"/>"#
            }
            Self::Cpu => {
                r#"<path d="M12 20v2"/><path d="M12 2v2"/><path d="M17 20v2"/><path d="M17 2v2"/><path d="M2 12h2"/><path d="M2 17h2"/><path d="M2 7h2"/><path d="M20 12h2"/><path d="M20 17h2"/><path d="M20 7h2"/><path d="M7 20v2"/><path d="M7 2v2"/><rect x="4" y="4" width="16" height="16" rx="2"/><rect x="8" y="8" width="8" height="8" rx="1"/>"#
            }
            Self::HardDrive => {
                r#"<path d="M10 16h.01"/><path d="M2.212 11.577a2 2 0 0 0-.212.896V18a2 2 0 0 0 2 2h16a2 2 0 0 0 2-2v-5.527a2 2 0 0 0-.212-.896L18.55 5.11A2 2 0 0 0 16.76 4H7.24a2 2 0 0 0-1.79 1.11z"/><path d="M21.946 12.013H2.054"/><path d="M6 16h.01"/>"#
            }
            Self::Braces => {
                r#"<path d="M8 3H7a2 2 0 0 0-2 2v5a2 2 0 0 1-2 2 2 2 0 0 1 2 2v5c0 1.1.9 2 2 2h1"/><path d="M16 21h1a2 2 0 0 0 2-2v-5c0-1.1.9-2 2-2a2 2 0 0 1-2-2V5a2 2 0 0 0-2-2h-1"/>"#
            }
            Self::FileTerminal => {
                r#"<path d="M6 22a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2h8a2.4 2.4 0 0 1 1.704.706l3.588 3.588A2.4 2.4 0 0 1 20 8v12a2 2 0 0 1-2 2z"/><path d="M14 2v5a1 1 0 0 0 1 1h5"/><path d="m8 16 2-2-2-2"/><path d="M12 18h4"/>"#
            }
            Self::Clock => r#"<circle cx="12" cy="12" r="10"/><path d="M12 6v6l4 2"/>"#,
            Self::History => {
                r#"<path d="M3 12a9 9 0 1 0 9-9 9.75 9.75 0 0 0-6.74 2.74L3 8"/><path d="M3 3v5h5"/><path d="M12 7v5l4 2"/>"#
            }
            Self::GripVertical => {
                r#"<circle cx="9" cy="12" r="1"/><circle cx="9" cy="5" r="1"/><circle cx="9" cy="19" r="1"/><circle cx="15" cy="12" r="1"/><circle cx="15" cy="5" r="1"/><circle cx="15" cy="19" r="1"/>"#
            }
            Self::RotateCw => {
                r#"<path d="M21 12a9 9 0 1 1-9-9c2.52 0 4.93 1 6.74 2.74L21 8"/><path d="M21 3v5h-5"/>"#
            }
            Self::CodeXml => {
                r#"<path d="m18 16 4-4-4-4"/><path d="m6 8-4 4 4 4"/><path d="m14.5 4-5 16"/>"#
            }
            Self::ChartSpline => {
                r#"<path d="M3 3v16a2 2 0 0 0 2 2h16"/><path d="M7 16c.5-2 1.5-7 4-7 2 0 2 3 4 3 2.5 0 4.5-5 5-7"/>"#
            }
            Self::MousePointer2 => {
                r#"<path d="M4.037 4.688a.495.495 0 0 1 .651-.651l16 6.5a.5.5 0 0 1-.063.947l-6.124 1.58a2 2 0 0 0-1.438 1.435l-1.579 6.126a.5.5 0 0 1-.947.063z"/>"#
            }
            Self::Zap => {
                r#"<path d="M15.914 4a1.5 1.5 0 00-2.474-1.561l-9 9A1.5 1.5 0 005.5 14h4.002a.5.5 0 01.471.666L8.086 20a1.5 1.5 0 002.475 1.56l9-9A1.5 1.5 0 0018.5 10h-3.997a.5.5 0 01-.472-.667z"/>"#
            }
            Self::User => {
                r#"<path d="M19 21v-2a4 4 0 0 0-4-4H9a4 4 0 0 0-4 4v2"/><circle cx="12" cy="7" r="4"/>"#
            }
            Self::ArrowDownToLine => {
                r#"<path d="M12 17V3"/><path d="m6 11 6 6 6-6"/><path d="M19 21H5"/>"#
            }
            Self::Lock => {
                r#"<rect width="18" height="11" x="3" y="11" rx="2" ry="2"/><path d="M7 11V7a5 5 0 0 1 10 0v4"/>"#
            }
            Self::Link => {
                r#"<path d="M10 13a5 5 0 0 0 7.54.54l3-3a5 5 0 0 0-7.07-7.07l-1.72 1.71"/><path d="M14 11a5 5 0 0 0-7.54-.54l-3 3a5 5 0 0 0 7.07 7.07l1.71-1.71"/>"#
            }
            Self::Play => {
                r#"<path d="M5 5a2 2 0 0 1 3.008-1.728l11.997 6.998a2 2 0 0 1 .003 3.458l-12 7A2 2 0 0 1 5 19z"/>"#
            }
            Self::Download => {
                r#"<path d="M12 15V3"/><path d="M21 15v4a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2v-4"/><path d="m7 10 5 5 5-5"/>"#
            }
            Self::WrapText => {
                r#"<path d="m16 16-3 3 3 3"/><path d="M3 12h14.5a1 1 0 0 1 0 7H13"/><path d="M3 19h6"/><path d="M3 5h18"/>"#
            }
            Self::GitBranch => {
                r#"<path d="M15 6a9 9 0 0 0-9 9V3"/><circle cx="18" cy="6" r="3"/><circle cx="6" cy="18" r="3"/>"#
            }
            Self::Package => {
                r#"<path d="M11 21.73a2 2 0 0 0 2 0l7-4A2 2 0 0 0 21 16V8a2 2 0 0 0-1-1.73l-7-4a2 2 0 0 0-2 0l-7 4A2 2 0 0 0 3 8v8a2 2 0 0 0 1 1.73z"/><path d="M12 22V12"/><polyline points="3.29 7 12 12 20.71 7"/><path d="m7.5 4.27 9 5.15"/>"#
            }
        }
    }

    /// The icon with this name, for names that come as data (templates); a box for an unknown one.
    pub fn named(name: &str) -> Self {
        match name {
            "box" | "base" | "package" => Self::Box,
            "code" | "node" | "hexagon" => Self::CodeXml,
            "chart" | "chart-line" | "python" => Self::ChartSpline,
            "monitor" | "browser" | "globe" => Self::Monitor,
            "gpu" | "cpu" | "zap" => Self::Zap,
            "terminal" => Self::Terminal,
            _ => Self::Layers,
        }
    }
}

/// Draws an icon; it says nothing to screen readers, the text beside it does.
#[component]
pub fn Draw(
    /// Which.
    icon: Icon,
    /// More classes.
    #[prop(optional)]
    class: &'static str,
) -> impl IntoView {
    view! {
        <svg
            class=format!("icon {class}")
            viewBox="0 0 24 24"
            fill="none"
            stroke="currentColor"
            stroke-width="2"
            stroke-linecap="round"
            stroke-linejoin="round"
            aria-hidden="true"
            inner_html=icon.body()
        ></svg>
    }
}
