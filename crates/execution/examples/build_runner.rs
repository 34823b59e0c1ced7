//! Builds a runner image outside a server: `cargo run -p execution --example build_runner -- small DIR`.

use execution::images::{ImageStore, Variant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(variant), Some(dir)) = (args.next(), args.next()) else {
        return Err("usage: build_runner small|full DIR".into());
    };
    let variant = Variant::ALL
        .into_iter()
        .find(|v| v.as_str() == variant)
        .ok_or("the variant is small or full")?;
    ImageStore::new(dir).build_runner(variant, false, |text| eprintln!("{text}"))?;
    Ok(())
}
